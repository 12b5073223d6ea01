"""The contract of strategies: kept by ours, and by no strategy that breaks one promise of it."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file, save_file
from torch import nn

from benchmarks.stream import Stream
from pmn_cl import registry
from pmn_cl.config.stream import parse_stream
from pmn_cl.data.loader import Batches
from pmn_cl.data.store import MappedArray
from pmn_cl.errors import UserError
from pmn_cl.strategy.base import Experience, ParameterCount, Strategy
from pmn_cl.strategy.contract import ContractError, Promise, check_strategy

Experiences = dict[str, list[Any]]

SCENES = {"train": 80, "val": 20, "test": 40, "novel": 1}
# What a strategy cannot do without, by name.
OPTIONS: dict[str, dict[str, Any]] = {
    "plugin": {"plugin": "avalanche.training.plugins:EWCPlugin", "arguments": {"ewc_lambda": 1.0}}
}


def open_experiences(cache: Path, tasks: list[str], **options: Any) -> Experiences:
    given = {
        "name": "small",
        "world": {"name": "digits", "scenes": SCENES},
        "tasks": tasks,
        "strategies": ["constant"],
        "seeds": [0],
    }
    stream = Stream.open(parse_stream(given), 0, cache=cache)
    return dict(stream.as_avalanche(**options).streams)


@pytest.fixture(scope="module")
def three_tasks(cache: Path) -> Experiences:
    """One task over regions, one that points, one that asks."""
    return open_experiences(cache, ["obj", "rel", "cnt"])


@pytest.fixture(scope="module")
def experiences(cache: Path) -> Experiences:
    return open_experiences(cache, ["obj", "att"])


@pytest.fixture(scope="module")
def executed_tasks(cache: Path) -> Experiences:
    """What the executor looks at, a task with programs, and one without."""
    return open_experiences(cache, ["obj", "att", "rel", "cap", "cnt", "vqa"])


@pytest.mark.parametrize(
    "options", [{}, {"probe": "modules"}, {"probe": "modules", "ask": ["rel", "cnt"]}], ids=str
)
def test_the_executor_keeps_it(executed_tasks: Experiences, options: dict[str, Any]) -> None:
    kind = registry.find("executor", registry.STRATEGIES, "strategy", Strategy)
    given = kind.Options.model_validate(options)
    check_strategy(lambda seed: kind(options=given, seed=seed, budget=2.0), executed_tasks)


@pytest.mark.parametrize("name", [name for name in registry.STRATEGIES if name != "executor"])
def test_every_strategy_that_is_shipped_keeps_it(three_tasks: Experiences, name: str) -> None:
    kind = registry.find(name, registry.STRATEGIES, "strategy", Strategy)
    options = kind.Options.model_validate(OPTIONS.get(name, {}))
    check_strategy(lambda seed: kind(options=options, seed=seed, budget=2.0), three_tasks)


# A small strategy that keeps every promise, and others that break one each.


class Honest(Strategy):
    """A linear layer per task over regions, after one step on a few samples."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.model = nn.ModuleDict()

    def add(self, experience: Experience) -> nn.Linear:
        names = experience.samples.store.names[experience.task.outputs or ""]
        head = nn.Linear(128, len(names))
        nn.init.normal_(head.weight, generator=torch.Generator().manual_seed(self.seed))
        nn.init.zeros_(head.bias)
        self.model[experience.task.name] = head
        return head

    def learn(self, experience: Experience, validation: Experience) -> None:
        head = self.add(experience)
        x, y = experience.batches[np.arange(20)]
        experience.task.loss(head(x["regions"]), y).backward()
        with torch.no_grad():
            for parameter in head.parameters():
                assert parameter.grad is not None
                parameter -= 0.1 * parameter.grad
        validation.task.score(self.predict(validation), validation.samples.columns, {})

    @torch.no_grad()
    def predict(self, experience: Experience) -> NDArray[Any]:
        if experience.task.name not in self.model:
            raise UserError(f"task {experience.task.name!r} was not learned")
        x, _ = experience.batches[np.arange(len(experience.samples))]
        return experience.task.decode(self.model[experience.task.name](x["regions"]))

    def parameter_count(self) -> ParameterCount:
        sizes = [sum(p.numel() for p in head.parameters()) for head in self.model.values()]
        return ParameterCount(sum(sizes), sizes[-1])

    def save(self, folder: str | Path) -> None:
        save_file(self.model.state_dict(), Path(folder) / "heads.safetensors")

    def load(self, folder: str | Path, experiences: Sequence[Experience]) -> None:
        for experience in experiences:
            self.add(experience)
        self.model.load_state_dict(load_file(Path(folder) / "heads.safetensors"))


class Together(Honest):
    """All tasks at once."""

    at_once = True

    def learn_all(
        self, experiences: Sequence[Experience], validations: Sequence[Experience]
    ) -> None:
        for experience, validation in [*zip(experiences, validations, strict=True)][::-1]:
            super().learn(experience, validation)


class LooksBack(Honest):
    """Reads samples of all tasks so far."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.experiences: list[Experience] = []

    def learn(self, experience: Experience, validation: Experience) -> None:
        self.experiences.append(experience)
        for old in self.experiences:
            old.batches[np.arange(5)]
        super().learn(experience, validation)


class Replays(LooksBack):
    """The same, and says so."""

    keeps_data = True


class LooksBackThroughItsDataSet(Honest):
    datasets: list[Any]

    def learn(self, experience: Any, validation: Experience) -> None:
        self.datasets = [*getattr(self, "datasets", []), experience.dataset]
        self.datasets[0][0]
        super().learn(experience, validation)


class LooksAhead(Honest):
    def learn(self, experience: Any, validation: Experience) -> None:
        experience.origin_stream[1].samples.columns["attributes"]
        super().learn(experience, validation)


class LooksAtTest(Honest):
    def learn(self, experience: Experience, validation: Experience) -> None:
        table = experience.samples.store.table("test", experience.task.name)
        table["asked"].array[:5]
        super().learn(experience, validation)


class LooksAtTestAndSaysNothing(Honest):
    def learn(self, experience: Experience, validation: Experience) -> None:
        with contextlib.suppress(AssertionError):
            list(experience.samples.store.table("test", "scenes")["regions"].blocks())
        super().learn(experience, validation)


class LooksAtTruth(Honest):
    def learn(self, experience: Experience, validation: Experience) -> None:
        experience.samples.store.table("train", "scenes")["digit"].load()
        super().learn(experience, validation)


class LooksAtTruthWhenAsked(Honest):
    def predict(self, experience: Experience) -> NDArray[Any]:
        experience.samples.store.table(experience.samples.split, "scenes")["digit"].load()
        return super().predict(experience)


class LearnsBeforehand(Honest):
    def expect(self, experiences: Sequence[Experience]) -> None:
        experiences[1].batches[np.arange(5)]


class LearnsAgainWhenLoaded(Honest):
    def load(self, folder: str | Path, experiences: Sequence[Experience]) -> None:
        for experience in experiences:
            self.learn(experience, experience)


class AnswersAnything(Honest):
    def predict(self, experience: Experience) -> NDArray[Any]:
        return np.zeros(len(experience.samples))


class AnswersAnythingOnceItLearned(Honest):
    def predict(self, experience: Experience) -> NDArray[Any]:
        if self.model and experience.task.name not in self.model:
            return np.zeros(len(experience.samples))
        return super().predict(experience)


class TogetherAnswersAnything(Together, AnswersAnythingOnceItLearned):
    pass


class RaisesKeyError(Honest):
    def predict(self, experience: Experience) -> NDArray[Any]:
        self.model[experience.task.name]
        return super().predict(experience)


class NamesNoTask(Honest):
    def predict(self, experience: Experience) -> NDArray[Any]:
        if experience.task.name not in self.model:
            raise UserError("no object of that kind was learned")  # an object is not the task obj
        return super().predict(experience)


class LearnsNothing(Honest):
    """Knows its tasks from the start."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.model = nn.ModuleDict({"obj": nn.Linear(128, 11), "att": nn.Linear(128, 11)})
        self.known: set[str] = set()

    def learn(self, experience: Experience, validation: Experience) -> None:
        self.known.add(experience.task.name)

    def predict(self, experience: Experience) -> NDArray[Any]:
        if experience.task.name not in self.known:
            raise UserError(f"task {experience.task.name!r} was not learned")
        return super().predict(experience)


class AnswersTheLastTaskAlone(Honest):
    def predict(self, experience: Experience) -> NDArray[Any]:
        if list(self.model)[-1:] != [experience.task.name]:
            raise UserError(f"{experience.task.name} was so long ago")
        return super().predict(experience)


class Changed(Honest):
    """Changes its predictions of one task."""

    def change(self, predictions: NDArray[Any]) -> Any:
        raise NotImplementedError

    def predict(self, experience: Experience) -> NDArray[Any]:
        predictions = super().predict(experience)
        is_asked = experience.task.name == "att" and experience.samples.split == "test"
        return self.change(predictions) if is_asked else predictions


class TooFew(Changed):
    def change(self, predictions: NDArray[Any]) -> Any:
        return predictions[:-1]


class FlatRows(Changed):
    def change(self, predictions: NDArray[Any]) -> Any:
        return predictions.mean(2)


class TooFewAttributes(Changed):
    def change(self, predictions: NDArray[Any]) -> Any:
        return predictions[:, :, :4]


class NotFinite(Changed):
    def change(self, predictions: NDArray[Any]) -> Any:
        return np.where(predictions == predictions.max(), np.nan, predictions)


class NoArray(Changed):
    def change(self, predictions: NDArray[Any]) -> Any:
        return predictions.tolist()


class TiresOfAsking(Honest):
    asked = 0

    def predict(self, experience: Experience) -> NDArray[Any]:
        predictions = super().predict(experience)
        self.asked += experience.task.name == "att"
        return predictions + self.asked


class LearnsByBeingAsked(Honest):
    asked = 0

    def predict(self, experience: Experience) -> NDArray[Any]:
        predictions = super().predict(experience)
        self.asked += 1
        return predictions

    def add(self, experience: Experience) -> nn.Linear:
        head = super().add(experience)
        with torch.no_grad():
            head.bias += self.asked * torch.linspace(0, 1, len(head.bias))
        return head


class ThrowsDice(Honest):
    def add(self, experience: Experience) -> nn.Linear:
        head = super().add(experience)
        nn.init.normal_(head.bias)
        return head


class ThrowsNumpysDice(Honest):
    def add(self, experience: Experience) -> nn.Linear:
        head = super().add(experience)
        nn.init.constant_(head.bias[0], 10 * np.random.rand())
        return head


class PeeksAtTargets(Honest):
    def predict(self, experience: Experience) -> NDArray[Any]:
        predictions = super().predict(experience)
        _, y = experience.batches[np.arange(len(experience.samples))]
        if experience.task.name == "att":
            predictions += y["attributes"].numpy()
        return predictions


class PeeksAtColumns(Honest):
    def predict(self, experience: Experience) -> NDArray[Any]:
        predictions = super().predict(experience)
        if experience.task.name == "obj":
            predictions[:, :, 0] = experience.samples.columns["label"]
        return predictions


class SaysWhatItReads(PeeksAtColumns):
    """Answers by a column that others are not given, and says so."""

    reads = ("label",)


class KeepsWhatItPeekedAt(PeeksAtColumns):
    """Answers from what it answered at first, so that it is the same however it is asked."""

    answers: dict[str, NDArray[Any]]

    def predict(self, experience: Experience) -> NDArray[Any]:
        if experience.samples.split != "test":
            return super().predict(experience)
        self.answers = getattr(self, "answers", {})
        if experience.task.name not in self.answers:
            self.answers[experience.task.name] = super().predict(experience)
        return self.answers[experience.task.name]


class MoreTrainableThanTotal(Honest):
    def parameter_count(self) -> ParameterCount:
        total, trainable = super().parameter_count()
        return ParameterCount(total, total + trainable)


class ForgetsToCountBiases(Honest):
    def parameter_count(self) -> ParameterCount:
        total = sum(p.numel() for name, p in self.model.named_parameters() if "bias" not in name)
        return ParameterCount(total, 0)


class ForgetsWhenLoaded(Honest):
    def load(self, folder: str | Path, experiences: Sequence[Experience]) -> None:
        super().load(folder, experiences)
        nn.init.zeros_(self.model["obj"].weight)


class GrowsWhenLoaded(Honest):
    def load(self, folder: str | Path, experiences: Sequence[Experience]) -> None:
        super().load(folder, experiences)
        self.model["more"] = nn.Linear(1, 1)


@pytest.mark.parametrize("kind", [Honest, Together, Replays, SaysWhatItReads])
def test_one_that_keeps_every_promise_passes(
    experiences: Experiences, kind: type[Strategy]
) -> None:
    check_strategy(lambda seed: kind(seed=seed), experiences)


BROKEN: list[tuple[type[Strategy], Promise, str]] = [
    (AnswersAnything, Promise.REFUSES, r"asked for 'obj', with nothing learned, it answered"),
    (AnswersAnythingOnceItLearned, Promise.REFUSES, r"asked for 'att', with obj learned, it answ"),
    (TogetherAnswersAnything, Promise.REFUSES, r"asked for 'att', with obj learned, it answered"),
    (RaisesKeyError, Promise.REFUSES, r"'obj'.* raised KeyError: .*, expected a UserError"),
    (NamesNoTask, Promise.REFUSES, r"'obj'.* does not name the task: no object of that kind"),
    (LearnsNothing, Promise.LEARNS, r"learning 'obj' left its model as it was"),
    (AnswersTheLastTaskAlone, Promise.LEARNS, r"'obj' was learned, but predict raised UserError"),
    (TooFew, Promise.LEARNS, r"'att' have the shape \(39, 24, 11\), expected one like \(40, 24,"),
    (FlatRows, Promise.LEARNS, r"'att' have the shape \(40, 24\), expected one like \(40, 24, 1"),
    (TooFewAttributes, Promise.LEARNS, r"shape \(40, 24, 4\), and scoring them raises"),
    (NotFinite, Promise.LEARNS, r"predictions of 'att' are not all finite"),
    (NoArray, Promise.LEARNS, r"gave a list for 'att', expected an array"),
    (TiresOfAsking, Promise.ANY_ORDER, r"asked for '...' again, after other tasks, it answers oth"),
    (LearnsByBeingAsked, Promise.ANY_ORDER, r"asked between tasks, it learns otherwise, as 'att'"),
    (LooksBack, Promise.OWN_DATA, r"while learning 'att' it read train/obj, .*keeps_data = True"),
    (LooksBackThroughItsDataSet, Promise.OWN_DATA, r"while learning 'att' it read train/obj"),
    (LooksAhead, Promise.OWN_DATA, r"while learning 'obj' it read train/att/attributes"),
    (LooksAtTest, Promise.OWN_DATA, r"while learning 'obj' it read test/obj/asked, which it may n"),
    (LooksAtTestAndSaysNothing, Promise.OWN_DATA, r"while learning 'obj' it read test/scenes/reg"),
    (LooksAtTruth, Promise.OWN_DATA, r"while learning 'obj' it read train/scenes/digit"),
    (LooksAtTruthWhenAsked, Promise.OWN_DATA, r"asked for 'obj' it read test/scenes/digit"),
    (LearnsBeforehand, Promise.OWN_DATA, r"while expecting the stream it read train/att"),
    (LearnsAgainWhenLoaded, Promise.OWN_DATA, r"while loading it read train/obj"),
    (PeeksAtTargets, Promise.NO_TARGETS, r"other targets .* it answers 'att' otherwise"),
    (PeeksAtColumns, Promise.NO_TARGETS, r"other targets .* it answers 'obj' otherwise"),
    (KeepsWhatItPeekedAt, Promise.NO_TARGETS, r"other targets .* it answers 'obj' otherwise"),
    (MoreTrainableThanTotal, Promise.PARAMETERS, r"after 'obj' it reports 1419 parameters, 2838"),
    (ForgetsToCountBiases, Promise.PARAMETERS, r"reports 1408 parameters, but its model has 1419"),
    (ThrowsDice, Promise.SEED, r"trained twice with the same seed, it answers 'obj' otherwise"),
    (ThrowsNumpysDice, Promise.SEED, r"twice with the same seed"),
    (ForgetsWhenLoaded, Promise.KEPT, r"after saving and loading it answers 'obj' otherwise"),
    (GrowsWhenLoaded, Promise.KEPT, r"had 2838 parameters, and after saving and loading 2840"),
]


@pytest.mark.parametrize(("kind", "promise", "said"), BROKEN, ids=lambda v: getattr(v, "name", v))
def test_one_that_breaks_a_promise_is_told_which_and_how(
    experiences: Experiences, kind: type[Strategy], promise: Promise, said: str
) -> None:
    with pytest.raises(ContractError, match=said) as caught:
        check_strategy(lambda seed: kind(seed=seed), experiences)
    assert caught.value.promise is promise
    assert promise.value in str(caught.value)
    assert isinstance(caught.value, AssertionError)


def test_every_promise_is_broken_by_some() -> None:
    assert {promise for _, promise, _ in BROKEN} == set(Promise)


def test_regions_read_from_disk_are_watched_alike(cache: Path) -> None:
    mapped = open_experiences(cache, ["obj", "att"], in_memory=False)
    check_strategy(lambda seed: Honest(seed=seed), mapped)
    with pytest.raises(ContractError, match="train/obj"):
        check_strategy(lambda seed: LooksBack(seed=seed), mapped)


def test_experiences_and_shared_generators_stay_as_they_are(experiences: Experiences) -> None:
    def state() -> list[Any]:
        return [
            random.getstate(),
            np.random.get_state()[1].tolist(),
            torch.get_rng_state().tolist(),
        ]

    before = state()
    check_strategy(lambda seed: Honest(seed=seed), experiences)
    with pytest.raises(ContractError):
        check_strategy(lambda seed: LooksBack(seed=seed), experiences)
    assert state() == before
    for experience in (experience for stream in experiences.values() for experience in stream):
        assert type(experience.batches) is Batches
        columns = experience.samples.store.table(experience.samples.split, experience.task.name)
        assert {type(column) for column in columns.values()} == {MappedArray}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda experiences: {"train": experiences["train"]}, "no experiences of val, test"),
        (lambda experiences: {s: list(experiences[s])[:1] for s in experiences}, "two or more"),
        (
            lambda experiences: {**experiences, "val": list(experiences["val"])[::-1]},
            "the same tasks",
        ),
    ],
)
def test_experiences_that_will_not_do_are_refused(
    experiences: Experiences, change: Callable[[Experiences], Experiences], said: str
) -> None:
    with pytest.raises(UserError, match=said):
        check_strategy(lambda seed: Honest(seed=seed), change(experiences))


def test_what_is_no_strategy_is_refused(experiences: Experiences) -> None:
    with pytest.raises(UserError, match=r"make\(seed=3\) returned None, expected a Strategy"):
        check_strategy(lambda seed: None, experiences)  # type: ignore[arg-type,return-value]
