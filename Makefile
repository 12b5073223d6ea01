# `make test` checks everything, `make bench` compares the strategies. Both set up .venv first,
# and again only when setup.py or constraints.txt have changed.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: test test-browser test-long bench speed docs lint style constraints clean

# A process for each core, with one thread each.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/pytest --numprocesses auto --dist loadfile

# Types are checked beside the tests; what is wrong there is said after them.
test: .venv/installed style
	@mkdir -p build
	@$(BIN)/mypy > build/mypy.txt 2>&1 & types=$$!; \
	$(PYTEST) -m "not long and not browser"; tests=$$?; \
	wait $$types || { cat build/mypy.txt; tests=1; }; exit $$tests

lint: style
	$(BIN)/mypy

style: .venv/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

# Needs Chromium (Debian: apt-get install chromium), as `chromium` on the path.
test-browser: .venv/installed
	$(PYTEST) -m browser

# Clusters, too: with Ray.
test-long: .venv/with-ray
	$(PYTEST) -m "long or browser"

bench: .venv/installed
	$(BIN)/pmn-bench run stream.yaml

speed: .venv/installed
	$(BIN)/python benchmarks/speed/run_all.py

# The documentation as a site, which opens from disk: build/site/index.html.
docs: .venv/installed
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet

.venv/installed: setup.py constraints.txt
	$(PYTHON) -c 'import sys; sys.exit("Python 3.10 or newer is needed: make PYTHON=…" if sys.version_info < (3, 10) else 0)'
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --constraint constraints.txt --editable '.[test,docs]'
	touch $@

.venv/with-ray: .venv/installed
	$(BIN)/pip install --constraint constraints.txt --editable '.[test,docs,ray]'
	touch $@

# Resolve everything anew, for this Python.
constraints:
	rm -rf build/constraints && $(PYTHON) -m venv build/constraints
	build/constraints/bin/pip install --quiet torch==2.13.0 '.[test,docs,ray]'
	build/constraints/bin/pip freeze --exclude pmn-cl > build/frozen.txt
	sed -e 's/+cpu$$//' build/frozen.txt > constraints.txt

clean:
	rm -rf .venv build *.egg-info
