"""`prepare digits` and `show`."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import pytest
from commands import STREAM, TINY_SCENES, refused, run

from pmn_cl import registry
from pmn_cl.data.store import Store


def prepare_tiny(cache: Path) -> list[str]:
    sizes = [text for split, count in TINY_SCENES.items() for text in (f"--{split}", str(count))]
    return ["prepare", "digits", *sizes, "--cache", str(cache)]


@pytest.fixture(scope="module")
def tiny_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache in which the tiny world is prepared already."""
    cache = tmp_path_factory.mktemp("tiny")
    assert run(*prepare_tiny(cache)).exit_code == 0
    return cache


def test_prepare_builds_once_and_then_checks(tmp_path: Path) -> None:
    first = run(*prepare_tiny(tmp_path / "cache"))
    assert first.exit_code == 0 and "building the world: 27 of 27" in first.stderr
    [path] = (tmp_path / "cache").iterdir()
    store = Store(path)
    size = f"{path.stat().st_size:,}"
    assert first.stdout == f"{path}\n{size} bytes, digest {store.digest}\n"
    assert store.header["options"]["scenes"] == TINY_SCENES
    written = path.stat().st_mtime_ns
    again = run(*prepare_tiny(tmp_path / "cache"))
    assert again.exit_code == 0 and again.stdout == first.stdout
    assert "building" not in again.stderr and path.stat().st_mtime_ns == written


def test_prepare_with_other_options_is_another_store(tmp_path: Path, tiny_cache: Path) -> None:
    result = run(*prepare_tiny(tmp_path / "cache"), "--noise", "0.5", "--seed", "3")
    assert result.exit_code == 0
    [path] = (tmp_path / "cache").iterdir()
    assert path.name not in [known.name for known in tiny_cache.iterdir()]
    assert Store(path).header["options"]["noise"] == 0.5
    assert Store(path).header["options"]["seed"] == 3


def test_prepare_finds_a_damaged_store(tmp_path: Path, tiny_cache: Path) -> None:
    [source] = tiny_cache.glob("*.h5")
    path = tmp_path / source.name
    column = Store(source).table("train", "obj")["scene"]
    damaged = bytearray(source.read_bytes())
    assert column.offset is not None
    damaged[column.offset] ^= 1
    path.write_bytes(damaged)
    message = f"pmn-bench: {path}: does not match its digest; delete it and prepare again"
    assert refused(*prepare_tiny(tmp_path)).strip() == message
    path.write_bytes(damaged[:1000])
    assert f"{path}: not a readable store" in refused(*prepare_tiny(tmp_path))
    path.unlink()
    assert run(*prepare_tiny(tmp_path)).exit_code == 0


def test_prepare_where_nothing_can_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert "is a file" in refused(*prepare_tiny(tmp_path / "file"))
    message = refused(*prepare_tiny(tmp_path / "file/cache"))
    assert "could not be written" in message and "Not a directory" in message


def share_of_commonest_answer(store: Store) -> float:
    """Count how often the commonest answer of training is right on test."""
    answers = {
        split: [int(row[0]) for row in store.table(split, "vqa")["answers"].array]
        for split in ("train", "test")
    }
    counts = Counter(answers["train"])
    commonest = min(answer for answer in counts if counts[answer] == max(counts.values()))
    return answers["test"].count(commonest) / len(answers["test"])


def test_show(tiny_cache: Path) -> None:
    Path("tiny.yaml").write_text(STREAM)
    result = run("show", "tiny.yaml", "--cache", tiny_cache)
    assert result.exit_code == 0 and result.stderr.strip() == ""
    head, *_ = result.stdout.splitlines()
    assert head.startswith("tiny: 5 tasks on the world digits")
    [path] = tiny_cache.glob("*.h5")
    store = Store(path)
    assert str(path) in result.stdout and store.digest[:12] in result.stdout
    rows = [re.split(r" {2,}", line.strip()) for line in result.stdout.splitlines()]
    tasks = {row[0]: row for row in rows if len(row) == 10 and row[0] in registry.TASKS}
    assert list(tasks) == ["obj", "att", "rel", "cap", "vqa"]
    expected = {"obj": ("0", "-"), "att": ("0", "-"), "rel": ("1", "obj"),
                "cap": ("1", "obj, att"), "vqa": ("3", "rel, obj, att, cap")}  # fmt: skip
    assert {name: (row[1], row[2]) for name, row in tasks.items()} == expected
    for name, row in tasks.items():
        sizes = [f"{len(store.table(s, name)['scene']):,}" for s in ("val", "test", "novel")]
        assert row[4:7] == sizes
        assert row[7] == registry.load(registry.TASKS[name]).metric
        assert all(float(value) >= 0 for value in row[8:10])
    assert tasks["vqa"][8] == f"{share_of_commonest_answer(store):.3f}"
    whole = len(store.table("train", "cap")["scene"])
    assert tasks["obj"][3] == f"{len(store.table('train', 'obj')['scene'])}"
    assert tasks["cap"][3] == f"{whole // 2}"
    assert ["(50%)"] in rows
    assert any(row[0] == "obj" and "=" in row[1] for row in rows)  # its prior


def test_show_builds_the_world_where_there_is_none(tmp_path: Path) -> None:
    Path("tiny.yaml").write_text(STREAM)
    result = run("show", "tiny.yaml", "--cache", tmp_path / "cache")
    assert result.exit_code == 0 and "building the world: 27 of 27" in result.stderr
    assert len(list((tmp_path / "cache").iterdir())) == 1


def test_show_draws_a_preview(tiny_cache: Path) -> None:
    Path("tiny.yaml").write_text(STREAM)
    result = run("show", "tiny.yaml", "--cache", tiny_cache, "--preview", "some.png")
    assert result.exit_code == 0 and result.stdout.endswith("wrote some.png\n")
    content = Path("some.png").read_bytes()
    assert content.startswith(b"\x89PNG\r\n") and len(content) > 10_000


def test_preview_where_nothing_can_be_written(tiny_cache: Path) -> None:
    Path("tiny.yaml").write_text(STREAM)
    arguments = ["show", "tiny.yaml", "--cache", str(tiny_cache), "--preview"]
    assert "none/some.png" in refused(*arguments, "none/some.png")


def test_shipped_stream_is_found_and_that_is_said(
    tmp_path: Path, tiny_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shipped = tmp_path / "shipped.yaml"
    shipped.write_text(STREAM)  # the real one would build 15,000 scenes
    monkeypatch.setattr("pmn_cl.config.stream.shipped_streams", lambda: {"shipped.yaml": shipped})
    for name in ("shipped.yaml", "shipped"):
        result = run("show", name, "--cache", tiny_cache)
        assert result.exit_code == 0
        assert result.stdout.startswith(
            f"{name}: no such file here, using the stream that comes with pmn-bench\ntiny: "
        )
    Path("shipped.yaml").write_text(STREAM.replace("name: tiny", "name: own"))
    assert run("show", "shipped.yaml", "--cache", tiny_cache).stdout.startswith("own: ")


def test_show_of_an_unknown_stream() -> None:
    message = refused("show", "steam.yaml")
    assert message.startswith("pmn-bench: steam.yaml: no such file, and no shipped stream")
    assert message.endswith("; did you mean 'stream.yaml'?\n")


@pytest.mark.parametrize("name", ["[bold]", "[/bold]", "a [/] b", "\\[x", ":smile: [red]x"])
def test_names_are_printed_as_they_are(tiny_cache: Path, name: str) -> None:
    Path("odd.yaml").write_text(STREAM.replace("name: tiny", f"name: {json.dumps(name)}"))
    result = run("show", "odd.yaml", "--cache", tiny_cache)
    assert result.exit_code == 0
    assert result.stdout.startswith(f"{name}: 5 tasks")
