"""What ``pmn-bench run STREAM --dry-run`` adds at the paper's sizes: parameters, memory, hours.

A few steps of every task are taken on random data of the right shapes, on the device that the runs
would have. So it can be asked before the data are there: then shapes and numbers of samples are
those that were published. What validation costs, and reading, is not in the hours.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

from benchmarks.stream import Stream
from pmn_cl import registry
from pmn_cl.config.names import options_of, strategy_class
from pmn_cl.config.spec import RunSpec, StreamSpec, WorldSpec
from pmn_cl.data.store import Store, StoreWriter, build_store
from pmn_cl.data.world import World, WorldOptions
from pmn_cl.errors import UserError
from pmn_cl.modules.runtime.memory import Memory
from pmn_cl.progress import ProgressCallback
from pmn_cl.runs.execute import make_strategy
from pmn_cl.runs.worker import chosen_device
from pmn_cl.strategy.training import NetworkOptions

_STEPS = 3  # of each task: one that is weighed, two that are timed
_REMEMBERED = 4_000_000_000  # bytes that PMN's memory may take
_LONGEST_QUESTION, _LONGEST_CAPTION, _REFERENCES, _ANSWERS = 14, 16, 5, 10


@dataclass(frozen=True)
class Outline:
    """The shapes of a world, and how much there is to learn from."""

    region: int  # width of a region's features
    regions: int  # of a scene
    scenes: int
    names: Mapping[str, list[str]]
    samples: Mapping[str, int]  # of each task, for training

    @classmethod
    def of(cls, stream: Any) -> Outline:
        """Return the outline of an opened stream."""
        scenes = stream.store.table("train", "scenes")
        count, regions, region = scenes["regions"].shape
        samples = {e.task.name: len(e.splits["train"]) for e in stream.tasks}
        return cls(region, regions, count, stream.store.names, samples)


def _numbered(what: str, count: int) -> list[str]:
    return [f"{what} {number}" for number in range(count)]


# What the paper and the publications of its data say; an image is a sample of obj and att. How many
# words and answers there are is left open there: these are what others get from the same files.
PUBLISHED = Outline(
    region=2048,
    regions=36,
    scenes=123_287 + 108_077,  # COCO's train2014 and val2014, Visual Genome
    names={
        "objects": _numbered("object", 1 + 1600),
        "attributes": _numbered("attribute", 400),
        "relations": _numbered("relation", 20),
        "directions": _numbered("direction", 2),
        "caption words": _numbered("word", 9_490),
        "question words": _numbered("word", 19_902),
        "answers": _numbered("answer", 3_129),
        "counts": [str(number) for number in range(13)],
    },
    samples={
        "obj": 97_000,  # 90% of Visual Genome's images
        "att": 97_000,
        "rel": 200_000,
        "cap": 393_000,  # 95% of train2014's 414,113 captions
        "cnt": 50_000 + 89_000,  # of VQA 2.0, and of Visual Genome's boxes
        "vqa": 421_600,  # 95% of train2014's 443,757 questions
    },
)


# --- random data of the right shapes -----------------------------------------------------


class StandInOptions(WorldOptions):
    """Where the store of random data is."""

    path: str = Field(min_length=1)


class StandIn(World):
    """Random data, to see how large and how slow things are: nothing can be learned from it."""

    name, summary = "stand-in", "random data of given shapes"
    Options = StandInOptions
    options: StandInOptions

    def write(self, store: StoreWriter, progress: ProgressCallback) -> None:
        """Refuse: it is written by who knows the shapes."""
        raise NotImplementedError

    def prepare(self, cache: Path | None = None, progress: ProgressCallback | None = None) -> Store:
        """Open what was written."""
        return Store(Path(self.options.path))


def write_stand_in(path: Path, outline: Outline, rows: Mapping[str, int], scenes: int) -> None:
    """Write random scenes, and so many random samples of each task; few in other splits."""
    rng = np.random.default_rng(0)

    def write(store: StoreWriter) -> None:
        for what, names in outline.names.items():
            store.name_values(what, list(names))
        for split, share in (("train", 1.0), ("val", 0.0), ("test", 0.0)):
            count = max(2, round(share * scenes))
            _put(store, f"{split}/scenes", _random_scenes(rng, outline, count))
            for task, number in rows.items():
                some = max(2, round(share * number))
                columns = _random_samples(rng, outline, task, some)
                _put(store, f"{split}/{task}", {"scene": rng.integers(0, count, some), **columns})

    build_store(path, write, header={}, size=2 * scenes * outline.regions * outline.region)


def _put(store: StoreWriter, table: str, columns: Mapping[str, NDArray[Any]]) -> None:
    for name, values in columns.items():
        store.create(f"{table}/{name}", len(values), values.shape[1:], values.dtype)
        store.append(f"{table}/{name}", values)


def _random_scenes(
    rng: np.random.Generator, outline: Outline, count: int
) -> dict[str, NDArray[Any]]:
    shape = (count, outline.regions)
    corners = np.sort(rng.random((*shape, 2, 2), dtype=np.float32), axis=2)
    return {
        "regions": rng.random((*shape, outline.region), dtype=np.float32).astype("f2"),
        "boxes": corners.reshape(*shape, 4),
        "mask": np.ones(shape, "?"),
    }


def _random_samples(
    rng: np.random.Generator, outline: Outline, task: str, count: int
) -> dict[str, NDArray[Any]]:
    """Return the columns that a task needs, without ``scene``."""
    boxes = outline.regions

    def some(of: str, *shape: int, first: int = 0) -> NDArray[Any]:
        return rng.integers(first, len(outline.names[of]), (count, *shape)).astype("i4")

    def sentences(*shape: int) -> NDArray[Any]:
        words = some("caption words", *shape, _LONGEST_CAPTION, first=3)
        words[..., -1] = 2  # the end mark
        return words

    asked = {
        "ask_boxes": np.zeros((count, boxes), "?"),
        "ask_relation": np.full(count, -1, "i4"),
        "ask_direction": np.full(count, -1, "i4"),
    }
    if task == "obj":
        return {"label": some("objects", boxes), "asked": np.ones((count, boxes), "?")}
    if task == "att":
        marked = rng.random((count, boxes, len(outline.names["attributes"]))) < 0.01
        return {"attributes": marked, "asked": np.ones((count, boxes), "?")}
    if task == "rel":
        target = rng.integers(0, boxes, count)
        return {
            "box": rng.integers(0, boxes, count),
            "relation": some("relations"),
            "direction": some("directions"),
            "target": target,
            "satisfying": target[:, None] == np.arange(boxes),
        }
    if task == "cap":
        return {"words": sentences(), "captions": sentences(_REFERENCES)}
    question = some("question words", _LONGEST_QUESTION, first=1)
    if task == "cnt":
        return {"question": question, "count": some("counts"), **asked}
    return {
        "question": question,
        "answers": some("answers", _ANSWERS),
        "scores": rng.random((count, _ANSWERS), dtype=np.float32),
        **asked,
    }


# --- measuring ---------------------------------------------------------------------------


@dataclass(frozen=True)
class TaskEstimate:
    """What one task of a stream takes."""

    task: str
    calls: tuple[str, ...]
    parameters: int  # of its module
    memory: int  # bytes: weights, gradients, Adam's and what is kept for the backward pass
    step: float  # seconds
    steps: int

    @property
    def hours(self) -> float:
        """Return how long the task is trained."""
        return self.step * self.steps / 3600


@dataclass
class _Weighing:
    """Adds up what autograd keeps for the backward pass, a piece of memory once."""

    network: nn.Module
    kept: dict[int, int] = field(default_factory=dict)

    def pack(self, tensor: Tensor) -> Tensor:
        """Note a tensor that is kept."""
        storage = tensor.untyped_storage()
        self.kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    def total(self) -> int:
        """Return the bytes, without those of the weights, which are there anyway."""
        weights = {p.untyped_storage().data_ptr() for p in self.network.parameters()}
        return sum(size for place, size in self.kept.items() if place not in weights)


def estimate(
    run: RunSpec, outline: Outline, *, device: str = "cpu", progress: ProgressCallback | None = None
) -> list[TaskEstimate]:
    """Take a few steps of every task of a run whose strategy is made of modules."""
    settings = _options(run).settings()
    batches = {task: settings[task].batch_size for task in _tasks(run.stream)}
    rows = {task: _STEPS * batch for task, batch in batches.items()}
    scenes = 2 * max(batches.values())
    with TemporaryDirectory(prefix="pmn-bench-estimate-") as folder:
        path = Path(folder) / "random.h5"
        write_stand_in(path, outline, rows, scenes)
        strategy, training, validation = _opened(run, path, device)
        if strategy.memory is not None:
            # As much room as there is for each of the scenes that there really are.
            limit = int(_REMEMBERED * scenes / outline.scenes)
            strategy.memory = strategy.network.memory = Memory(limit)
        found = []
        for experience, held_out in zip(training, validation, strict=True):
            name = experience.task.name
            step, kept = _measured(strategy, partial(strategy.learn, experience, held_out))
            size = strategy.parameter_count()
            per_epoch = math.ceil(outline.samples[name] / batches[name])
            found.append(
                TaskEstimate(
                    name,
                    strategy.calls(experience),
                    sum(p.numel() for p in strategy.network[name].parameters()),
                    4 * size.total + 12 * size.trainable + kept,
                    step,
                    settings[name].steps(per_epoch, run.stream.budget),
                )
            )
            if progress is not None:
                progress(len(found), len(training))
    return found


def count_parameters(run: RunSpec, outline: Outline) -> int:
    """Return how many parameters a run's network has after the whole stream."""
    with TemporaryDirectory(prefix="pmn-bench-estimate-") as folder:
        path = Path(folder) / "random.h5"
        write_stand_in(path, outline, dict.fromkeys(_tasks(run.stream), 2), 2)
        strategy, training, _ = _opened(run, path, "cpu")
        strategy.build(training)
        total: int = strategy.parameter_count().total
        return total


def _opened(run: RunSpec, path: Path, device: str) -> tuple[Any, list[Any], list[Any]]:
    """Return the strategy of a run and its experiences, on random data and cut short."""
    short = _shortened(run, path)
    stream = Stream.open(short.stream, run.seed)
    streams = stream.as_avalanche(in_memory=True).streams
    training = list(streams["train"])
    return make_strategy(short, training, device=device), training, list(streams["val"])


def _measured(strategy: Any, learn: Callable[[], None]) -> tuple[float, int]:
    """Return the seconds of a step, and the bytes that the first one keeps."""
    moments: list[float] = []
    weighing = _Weighing(strategy.network)
    with ExitStack() as hooks:

        def after_step() -> None:
            hooks.close()  # they take time: the first step alone is weighed
            moments.append(perf_counter())

        strategy.on_step = after_step
        hooks.enter_context(
            torch.autograd.graph.saved_tensors_hooks(weighing.pack, lambda tensor: tensor)
        )
        learn()
    return min(after - before for before, after in pairwise(moments)), weighing.total()


def _tasks(spec: StreamSpec) -> list[str]:
    return [item.task for item in spec.tasks]


def _options(run: RunSpec) -> NetworkOptions:
    found = options_of(run.strategy)
    assert isinstance(found, NetworkOptions)
    return found


def _shortened(run: RunSpec, path: Path) -> RunSpec:
    """Return a run on random data that takes so few steps of every task."""
    world = WorldSpec(name=f"{__name__}:{StandIn.__name__}", options={"path": str(path)})
    tasks = [item.model_copy(update={"fraction": None, "extra": None}) for item in run.stream.tasks]
    stream = run.stream.model_copy(
        update={"world": world, "tasks": tasks, "fraction": 100.0, "budget": 100.0}
    )
    given = run.strategy.options.get("training", {})
    training = {task: {**given.get(task, {}), "epochs": 1} for task in _tasks(run.stream)}
    options = {**run.strategy.options, "training": training}
    strategy = run.strategy.model_copy(update={"options": options})
    return run.model_copy(update={"stream": stream, "strategy": strategy})


# --- the command -------------------------------------------------------------------------


def worth_estimating(runs: Sequence[RunSpec]) -> list[RunSpec]:
    """Return the runs at the paper's sizes, one of each strategy and variant."""
    large = [run for run in runs if run.strategy.options.get("size") == "paper"]
    return list({run.strategy.label: run for run in reversed(large)}.values())[::-1]


def print_estimates(
    runs: Sequence[RunSpec],
    console: Console,
    *,
    seeds: int = 1,
    device: str = "auto",
    cache: Path | None = None,
    progress: ProgressCallback | None = None,
) -> None:
    """Say how large the strategies of a stream are at the paper's sizes, and what they take."""
    spec = runs[0].stream
    unknown = [task for task in _tasks(spec) if task not in registry.TASKS]
    if unknown:
        console.print(f"no estimate: the shapes of {', '.join(unknown)} are not known")
        return
    where = chosen_device(device)
    torch.set_num_threads(spec.threads)
    outline = _outline(spec, runs[0].seed, console, cache)
    made_of_modules = [
        run for run in runs if hasattr(strategy_class(run.strategy.name), "make_module")
    ]
    total = len(made_of_modules) * len(spec.tasks)
    for number, run in enumerate(made_of_modules):

        def one_more(done: int, _: int, before: int = number * len(spec.tasks)) -> None:
            if progress is not None:
                progress(before + done, total)

        found = estimate(run, outline, device=where, progress=one_more)
        _print_modules(console, run, found, where, seeds)
    for run in runs:
        has_network = hasattr(strategy_class(run.strategy.name), "build")
        if has_network and run not in made_of_modules:
            console.print(f"{_title(run)}: {count_parameters(run, outline):,} parameters")
    console.print(
        "Hours are of training steps on random data, without validation and reading; memory is "
        f"without the {_REMEMBERED / 1e9:.0f} GB at most that frozen modules remember.",
        soft_wrap=True,
    )


def _title(run: RunSpec) -> str:
    return " ".join(filter(None, (run.strategy.name, run.strategy.variant)))


def _outline(spec: StreamSpec, seed: int, console: Console, cache: Path | None) -> Outline:
    """Return the outline of a stream's data; where they are not there, the published one."""
    try:
        opened = Stream.open(spec, seed, cache=cache)
    except UserError as error:
        console.print(f"{error}", soft_wrap=True)
        console.print("Until then: shapes and numbers of samples as they were published.")
        return PUBLISHED
    return Outline.of(opened)


def _print_modules(
    console: Console, run: RunSpec, found: Sequence[TaskEstimate], device: str, seeds: int
) -> None:
    table = Table(box=None, header_style="bold", title=f"{_title(run)}, on {device}")
    for heading in ("module", "calls", "parameters", "memory", "step", "steps", "hours"):
        table.add_column(heading, justify="left" if heading in ("module", "calls") else "right")
    for task in found:
        table.add_row(
            f"M_{task.task}",
            ", ".join(task.calls) or "-",
            f"{task.parameters:,}",
            f"{task.memory / 1e9:.1f} GB",
            f"{task.step:.3f} s",
            f"{task.steps:,}",
            f"{task.hours:.1f}",
        )
    hours = sum(task.hours for task in found)
    whole = sum(task.parameters for task in found)
    table.add_row("all", "", f"{whole:,}", "", "", "", f"{hours:.1f}", style="bold")
    console.print(table)
    if seeds > 1:
        console.print(f"{seeds} seeds: {seeds * hours:.1f} hours")
