"""Installs pmn-cl: the harness (five packages) and its command, pmn-bench."""

from pathlib import Path

from setuptools import find_packages, setup

HERE = Path(__file__).parent
PACKAGES = ("pmn_cl", "benchmarks", "strategies", "baselines", "reports")
VERSION = next(
    line.split('"')[1]
    for line in (HERE / "pmn_cl/__init__.py").read_text("utf-8").splitlines()
    if line.startswith("__version__")
)

setup(
    name="pmn-cl",
    version=VERSION,
    author="The pmn-bench maintainers",
    license="MIT",
    license_files=["LICENSE"],
    classifiers=[
        "Development Status :: 4 - Beta",
        "Environment :: Console",
        "Intended Audience :: Science/Research",
        "Operating System :: POSIX :: Linux",
        "Programming Language :: Python :: 3 :: Only",
        *(f"Programming Language :: Python :: 3.{minor}" for minor in (10, 11, 12, 13)),
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
        "Typing :: Typed",
    ],
    keywords="continual learning, lifelong learning, modular networks, benchmark",
    description="A continual-learning benchmark harness for Progressive Module Networks",
    long_description=(HERE / "README.md").read_text("utf-8"),
    long_description_content_type="text/markdown",
    python_requires=">=3.10",
    packages=find_packages(include=[f"{name}{below}" for name in PACKAGES for below in ("", ".*")]),
    package_data={
        "": ["py.typed"],
        "benchmarks": ["streams/*.yaml", "streams/*.json"],
        "pmn_cl": ["results/result.schema.json"],
        "reports": ["*.html", "*.css", "*.js"],
    },
    install_requires=[
        "avalanche-lib~=0.6.0",
        "click>=8.1",
        "h5py>=3.10",
        "jinja2>=3.1",
        "markupsafe>=2.1",
        "matplotlib>=3.8",
        "mlflow>=3.17,<3.18",  # saved comparison views rely on its undocumented format
        "numpy>=1.26",
        "packaging>=23",
        "pandas>=2",
        "pillow>=10",
        "pydantic>=2.8",
        "rich>=13.7",
        "ruamel.yaml>=0.18",
        "safetensors>=0.4",
        "scikit-learn>=1.4",
        "scipy>=1.15",
        "tensordict>=0.7",
        "threadpoolctl>=3.1",
        "torch>=2.6",
    ],
    extras_require={
        "docs": ["mkdocs-material>=9.5", "mkdocstrings-python>=1.10"],
        "ray": ["ray[default]>=2.40"],
        "test": [
            "axe-playwright-python>=0.1.8",
            "hypothesis>=6.100",
            "jsonschema>=4.20",
            "mypy>=1.11",
            "nltk>=3.9",
            "playwright>=1.45",
            "pycocoevalcap>=1.2",
            "pytest>=8.2",
            "pytest-xdist>=3.6",
            "rliable>=1.2",
            "ruff>=0.6",
        ],
    },
    entry_points={"console_scripts": ["pmn-bench = pmn_cl.cli.program:program"]},
)
