"""Streams: from a YAML file to experiences, ours and Avalanche's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner

from benchmarks.overview import constant_scores
from benchmarks.stream import Stream
from pmn_cl.cli.main import main
from pmn_cl.config.spec import StreamSpec, TaskSpec, WorldSpec
from pmn_cl.config.stream import find_stream, load_spec
from pmn_cl.tasks.counts import CountTask
from pmn_cl.tasks.objects import ObjectTask

PLUGIN = Path(__file__).parent.parent / "plugin" / "parity.yaml"
SMALL = WorldSpec(
    name="digits",
    options={"scenes": {"train": 300, "val": 50, "test": 250, "novel": 200}},
)


@pytest.fixture(scope="module")
def spec() -> StreamSpec:
    shipped, _ = find_stream("stream.yaml")
    spec = load_spec(shipped)
    assert spec.evaluate_every is not None  # its probe has tests of its own
    return spec.model_copy(update={"world": SMALL, "evaluate_every": None})


@pytest.fixture(scope="module")
def stream(spec: StreamSpec, cache: Path) -> Stream:
    return Stream.open(spec, 0, cache=cache)


def test_the_default_stream_is_the_papers(stream: Stream) -> None:
    found = [(e.task.name, e.calls, e.fraction) for e in stream.tasks]
    assert found == [
        ("obj", (), 100),
        ("att", (), 100),
        ("rel", ("obj", "att"), 100),
        ("cap", ("obj", "att"), 100),
        ("cnt", ("obj", "att", "rel"), 100),
        ("vqa", ("rel", "obj", "att", "cnt", "cap"), 100),
    ]
    assert list(stream.tasks[5].splits) == ["train", "val", "test", "novel"]


def test_without_a_call_list_the_papers_is_taken_as_far_as_it_was_learned(
    spec: StreamSpec, cache: Path
) -> None:
    tasks = [TaskSpec(task=name, fraction=None) for name in ("obj", "rel", "vqa")]
    stream = Stream.open(spec.model_copy(update={"tasks": tasks}), 0, cache=cache)
    assert [e.calls for e in stream.tasks] == [(), ("obj",), ("rel", "obj")]


def test_a_fraction_limits_training_alone_and_depends_on_the_seed(
    spec: StreamSpec, cache: Path
) -> None:
    tasks = [TaskSpec(task="obj", fraction=None), TaskSpec(task="vqa", fraction=5.0)]
    fifth = spec.model_copy(update={"tasks": tasks, "fraction": 50.0})
    first, again, other = (Stream.open(fifth, seed, cache=cache) for seed in (0, 0, 1))
    sizes = [{s: len(v) for s, v in e.splits.items()} for e in first.tasks]
    assert sizes == [
        {"train": 150, "val": 50, "test": 250, "novel": 200},
        {"train": 150, "val": 500, "test": 2500, "novel": 2000},
    ]
    rows = [s.tasks[1].splits["train"].rows for s in (first, again, other)]
    assert np.array_equal(rows[0], rows[1])
    assert not np.array_equal(rows[0], rows[2])


def test_constants_stay_under_the_limits(stream: Stream) -> None:
    by_task = {
        (c.task, c.split): c.metrics for e in stream.tasks for c in constant_scores(stream, e)
    }
    for split in ("val", "test", "novel"):
        assert by_task["obj", split]["top1"] <= 0.3
        assert by_task["rel", split]["accuracy"] <= 0.3
        assert by_task["cnt", split]["accuracy"] <= 0.3
        assert by_task["vqa", split]["accuracy"] <= 0.3
        assert by_task["vqa", split]["yes/no"] <= 0.55


@pytest.fixture(scope="module")
def benchmark(stream: Stream) -> Any:
    return stream.as_avalanche()


def test_an_avalanche_benchmark_with_a_stream_per_split(benchmark: Any) -> None:
    assert set(benchmark.streams) == {"train", "val", "test", "novel"}
    names = [e.task.name for e in benchmark.train_stream]
    assert names == ["obj", "att", "rel", "cap", "cnt", "vqa"]
    assert [e.task_label for e in benchmark.test_stream] == [0, 1, 2, 3, 4, 5]
    assert benchmark.train_stream[5].current_experience == 5
    assert benchmark.train_stream[5].origin_stream is benchmark.train_stream


def test_avalanches_own_loader_gets_the_batches_that_ours_gives(benchmark: Any) -> None:
    for experience in benchmark.val_stream:
        dataset = experience.dataset
        loader = torch.utils.data.DataLoader(dataset, 16, collate_fn=dataset.collate_fn)
        x, y, labels = next(iter(loader))
        our_x, our_y = experience.batches[np.arange(16)]
        assert labels.tolist() == [experience.task_label] * 16
        assert (x.pop("y") == our_y).all()  # the targets come along
        assert (x == our_x).all()
        assert (y == our_y).all()


def test_task_labels_survive_avalanches_joining_of_data_sets(benchmark: Any) -> None:
    """Replay buffers and cumulative training join data sets and ask whose sample is whose."""
    from avalanche.benchmarks.utils import concat_datasets

    both = concat_datasets([e.dataset for e in (benchmark.val_stream[0], benchmark.val_stream[4])])
    assert len(both) == 50 + 200
    assert both.targets_task_labels[0] == 0
    assert both.targets_task_labels[249] == 4
    assert both[60][2] == 4


class OneLayer(torch.nn.Module):
    """Scores of obj and cnt from the mean region; a mixed batch is answered task by task."""

    def __init__(self) -> None:
        super().__init__()
        self.heads = torch.nn.ModuleDict(
            {"0": torch.nn.Linear(128, 24 * 11), "4": torch.nn.Linear(128, 13)}
        )

    def forward(self, x: Any) -> list[torch.Tensor]:
        mean = torch.stack([one["regions"] for one in x]).mean(1)
        return [torch.stack([head(row) for row in mean]) for head in self.heads.values()]


class SumOfLosses:
    """The loss of each task in a batch, which y tells apart; keeps the tasks of each batch."""

    def __init__(self) -> None:
        self.tasks: list[set[int]] = []

    def __call__(self, outputs: list[torch.Tensor], y: Any) -> torch.Tensor:
        labels = torch.stack([one["task"] for one in y])
        self.tasks.append(set(labels.tolist()))
        losses = []
        for label, task, scores in ((0, ObjectTask(), outputs[0]), (4, CountTask(), outputs[1])):
            rows = (labels == label).nonzero().flatten().tolist()
            if rows:
                target = {name: torch.stack([y[i][name] for i in rows]) for name in task.target}
                chosen = scores[rows].unflatten(1, (24, 11)) if label == 0 else scores[rows]
                losses.append(task.loss(chosen, target))
        return torch.stack(losses).sum()


@pytest.mark.filterwarnings("ignore")  # Avalanche about itself
@pytest.mark.parametrize("name", ["Naive", "Replay", "Cumulative"])
def test_avalanches_own_strategies_go_through_it(benchmark: Any, name: str) -> None:
    from avalanche.training import supervised
    from avalanche.training.plugins import EvaluationPlugin

    torch.manual_seed(0)
    model, criterion, kind = OneLayer(), SumOfLosses(), getattr(supervised, name)
    strategy = kind(
        model=model,
        optimizer=torch.optim.Adam(model.parameters(), 1e-2),
        criterion=criterion,
        train_mb_size=32,
        evaluator=EvaluationPlugin(),
        **({"mem_size": 20} if name == "Replay" else {}),
    )
    for label in (0, 4):  # obj, then cnt
        before = [p.clone() for p in model.parameters()]
        strategy.train(benchmark.val_stream[label], num_workers=0)
        assert all(p.isfinite().all() for p in model.parameters())
        assert any((p != old).any() for p, old in zip(model.parameters(), before, strict=True))
    assert criterion.tasks[0] == {0}
    assert criterion.tasks[-1] == ({4} if name == "Naive" else {0, 4})


def test_a_world_and_a_task_of_somebody_elses(tmp_path: Path) -> None:
    shown = CliRunner().invoke(main, ["show", str(PLUGIN), "--cache", str(tmp_path)])
    assert shown.exit_code == 0, shown.output
    assert "scenes of one to five marks" in shown.output
    assert " 32 " in shown.output
    assert "(50%)" in shown.output
    assert "odd=" in shown.output
    stream = Stream.open(load_spec(PLUGIN), 0, cache=tmp_path)
    x, y = next(iter(stream.as_avalanche().train_stream)).batches[np.arange(4)]
    assert x["regions"].shape == (4, 5, 4)
    assert set(y["odd"].tolist()) <= {0, 1}
