"""The world over prepared files: where they are looked for, and what a stream gets of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made_prepared import ROWS, make_prepared

from benchmarks.stream import Stream
from benchmarks.worlds.visual_genome.world import PreparedOptions, VisualGenome
from pmn_cl.config.names import make_world
from pmn_cl.config.stream import find_stream, load_spec, parse_stream
from pmn_cl.data.store import Store
from pmn_cl.errors import UserError


def stream_of(folder: Path, tasks: list[Any]) -> Stream:
    given = {
        "name": "small",
        "world": {"name": "visual_genome", "path": str(folder)},
        "tasks": tasks,
        "strategies": ["constant"],
        "seeds": [0],
    }
    return Stream.open(parse_stream(given), 0)


def world(path: str) -> VisualGenome:
    return VisualGenome(PreparedOptions(path=path))


@pytest.mark.parametrize("where", ["data", "here", "beside"])
def test_a_relative_path_is_found(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for place in ("data", "here", "beside"):
        (tmp_path / place).mkdir()
    made = make_prepared(tmp_path / where / "prepared")
    monkeypatch.setenv("PMN_BENCH_DATA", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path / "here")
    stream = tmp_path / "beside" / "mine.yaml"
    stream.write_text(
        "name: mine\nworld: {name: visual_genome, path: prepared}\ntasks: [obj]\n"
        "strategies: [constant]\nseeds: [0]\n"
    )
    monkeypatch.setattr("sys.path", list(__import__("sys").path))
    spec = load_spec(stream)
    store = make_world(spec.world).prepare()
    assert store.path.resolve() == made / "features.h5"
    assert spec.world.options["path"] == "prepared"  # as it was given: keys of runs stay the same


def test_a_folder_that_is_not_there_is_told_with_the_first_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PMN_BENCH_DATA", raising=False)
    with pytest.raises(UserError) as refused:
        world("nowhere").prepare()
    assert "nowhere: no such folder" in str(refused.value)
    assert "pmn-bench prepare features SOURCE --out nowhere" in str(refused.value)


def test_a_stream_needs_only_the_parts_of_its_tasks(tmp_path: Path) -> None:
    folder = make_prepared(tmp_path, without=("genome.h5", "coco.h5"))
    opened = stream_of(folder, ["cnt", "vqa"])
    assert [len(e.splits["test"]) for e in opened.tasks] == [ROWS["test"]] * 2
    with pytest.raises(UserError, match=r"coco\.h5: not prepared yet.*`pmn-bench prepare coco"):
        stream_of(folder, ["cap", "vqa"])


def test_no_score_is_given_on_questions_without_answers(tmp_path: Path) -> None:
    opened = stream_of(make_prepared(tmp_path), ["vqa"])
    assert list(opened.tasks[0].splits) == ["train", "val", "test"]
    assert set(opened.as_avalanche().streams) == {"train", "val", "test"}


@pytest.mark.parametrize(("task", "source"), [("cnt", "obj"), ("vqa", "rel")])
def test_extra_samples_come_behind_those_of_the_table(
    task: str, source: str, tmp_path: Path
) -> None:
    folder = make_prepared(tmp_path)
    [experience] = stream_of(folder, [{"task": task, "extra": source}]).tasks
    columns, own = experience.splits["train"].columns, Store(folder / "vqa.h5")
    assert len(experience.splits["train"]) == ROWS["train"] + 5
    for name in ("scene", "question", "kind"):
        expected = [own.table(split, task)[name].array for split in ("train", "extra")]
        assert np.array_equal(columns[name], np.concatenate(expected))


def test_relational_questions_have_no_count_whatever_was_prepared(tmp_path: Path) -> None:
    whole = world(str(make_prepared(tmp_path)))
    store = whole.prepare()
    made = store.table("extra", "cnt")
    relational = made["kind"].load() == store.names["cnt kinds"].index("relational")
    assert (made["count"].load() >= 0).all() and relational.any()  # as older files have it
    count = whole.extra_samples(store, "cnt", "obj")["count"]
    assert (count[relational] == -1).all()
    assert np.array_equal(count[~relational], made["count"].load()[~relational])


def test_extra_samples_that_were_not_made_are_asked_for_in_vain(tmp_path: Path) -> None:
    folder = make_prepared(tmp_path)
    whole = world(str(folder))
    with pytest.raises(UserError, match="has no questions made of 'obj' for 'obj'"):
        whole.extra_samples(whole.prepare(), "obj", "obj")


def test_scenes_of_all_splits_are_in_memory_once(tmp_path: Path) -> None:
    streams = stream_of(make_prepared(tmp_path), ["vqa"]).as_avalanche().streams
    regions = [
        next(iter(some)).batches.scenes._columns["regions"].data_ptr() for some in streams.values()
    ]
    assert len(regions) == 3 and len(set(regions)) == 1


def test_the_paper_s_stream_says_what_the_paper_does() -> None:
    spec = load_spec(find_stream("paper.yaml")[0])
    assert [item.task for item in spec.tasks] == ["obj", "att", "rel", "cap", "cnt", "vqa"]
    assert spec.seeds == [0, 1, 2]
    pmn = spec.plain("pmn")
    assert pmn is not None
    assert pmn.options == {"size": "paper", "asking": "shared", "finetune": ["cnt"]}
    assert all(s.options["size"] == "paper" for s in spec.strategies if s.name != "constant")
    calls = {item.task: item.calls for item in spec.tasks}
    assert calls["cnt"] == ["obj", "att", "rel"]
    assert set(calls["vqa"] or ()) == {"obj", "att", "rel", "cnt", "cap"}
