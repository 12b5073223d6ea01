"""Streams that take seconds, with strategies of a test's own."""

from __future__ import annotations

from pathlib import Path

TINY = Path(__file__).parent.parent / "streams" / "tiny.yaml"
_STRATEGIES = "strategies: [constant, pmn, hard_sharing]"


def tiny_stream(folder: Path, *strategies: str, **modules: str) -> Path:
    """Write the tiny stream with other strategies, as YAML, and Python files beside it by name."""
    for name, source in modules.items():
        (folder / f"{name}.py").write_text(source, "utf-8")
    text = TINY.read_text("utf-8")
    assert _STRATEGIES in text
    path = folder / "stream.yaml"
    path.write_text(text.replace(_STRATEGIES, f"strategies: [{', '.join(strategies)}]"), "utf-8")
    return path
