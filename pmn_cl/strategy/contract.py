"""Whether a strategy keeps what ``strategy.base.Strategy`` promises: for those who write one.

    check_strategy(lambda seed: Mine(seed=seed, budget=2), benchmark.streams)

A stream of two or three tasks on a small world, and a short training, are enough. It learns twice
or three times, and is asked, saved and loaded in between; its experiences are copies that notice
what is read of them.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from pmn_cl.errors import UserError
from pmn_cl.strategy.base import Experience, Strategy
from pmn_cl.strategy.promises import ContractError, Promise
from pmn_cl.strategy.watched_experiences import Watch, watched

__all__ = ["ContractError", "Promise", "check_strategy"]

Answers = dict[str, NDArray[Any]]  # predictions, by task

_SEED = 3
_FEW = 20  # samples that show the form of a prediction


def check_strategy(
    make: Callable[..., Strategy], experiences: Mapping[str, Sequence[Experience]]
) -> None:
    """Raise a ``ContractError`` if the strategies that ``make(seed=…)`` makes break a promise.

    ``experiences`` has the streams "train", "val" and "test", each with an experience per task.
    """
    check = _Check(make, experiences)
    with _randomness(1):
        strategy, answers = check.first_run()
        check.asking_again(strategy, answers)
        check.saving(strategy, answers)
    check.second_run(answers)


class _Check:
    """The experiences, watched, and what is to be found out with them."""

    def __init__(
        self, make: Callable[..., Strategy], experiences: Mapping[str, Sequence[Experience]]
    ) -> None:
        self._make = make
        self._watch = Watch()
        self._train, self._val, self._test = watched(experiences, self._watch)

    def make(self) -> Strategy:
        """Return a strategy that has learned nothing, and knows what is to come."""
        made = self._make(seed=_SEED)
        if not isinstance(made, Strategy):
            raise UserError(f"make(seed={_SEED}) returned {made!r}, expected a Strategy")
        self._watch.reads = made.reads
        with self._watch.only("expecting the stream", []):
            made.expect(self._train)
        return made

    def first_run(self) -> tuple[Strategy, Answers]:
        """Let it learn, ask it all the time, and return it with its last answers."""
        strategy = self.make()
        self.unseen(strategy, 0)
        answers: Answers = {}
        before = _weights(strategy)
        for count in self.train(strategy):
            last = self._train[count - 1].task.name
            after = _weights(strategy)
            if isinstance(getattr(strategy, "model", None), nn.Module) and _same(before, after):
                how = f"learning {last!r} left its model as it was"
                raise ContractError(Promise.LEARNS, how)
            before = after
            answers = self.ask(strategy, self._test[:count])
            for experience in self._test[:count]:
                _check_form(experience, answers[experience.task.name])
            _check_parameters(strategy, last)
            self.unseen(strategy, count)
        if strategy.at_once:
            self.unseen_at_once()
        return strategy, answers

    def train(self, strategy: Strategy) -> Iterator[int]:
        """Let it learn, and yield how many tasks it has learned."""
        if strategy.at_once:
            with self._watch.only("learning", [*self._train, *self._val]):
                strategy.learn_all(self._train, self._val)
            yield len(self._train)
            return
        for count, (experience, validation) in enumerate(
            zip(self._train, self._val, strict=True), start=1
        ):
            given = [experience, validation]
            if strategy.keeps_data:
                given = [*self._train[:count], *self._val[:count]]
            with self._watch.only(f"learning {experience.task.name!r}", given):
                strategy.learn(experience, validation)
            yield count

    def ask(
        self, strategy: Strategy, experiences: Sequence[Experience], *, hide: bool = False
    ) -> Answers:
        """Ask it about tasks that it has learned."""
        answers: Answers = {}
        for experience in experiences:
            name = experience.task.name
            given = [experience]
            if strategy.keeps_data:
                given += [*self._train, *self._val]
            try:
                with self._watch.only(f"answering {name!r}", given, hide=hide):
                    found = strategy.predict(experience)
            except ContractError:
                raise
            except Exception as error:
                how = f"{name!r} was learned, but predict raised {_named(error)}"
                raise ContractError(Promise.LEARNS, how) from error
            if not isinstance(found, np.ndarray):
                how = f"predict gave a {type(found).__name__} for {name!r}, expected an array"
                raise ContractError(Promise.LEARNS, how)
            answers[name] = np.array(found)  # a copy: the strategy may use its array again
        return answers

    def unseen(self, strategy: Strategy, count: int) -> None:
        """Ask for the tasks behind the first so many, which it has learned."""
        learned = ", ".join(experience.task.name for experience in self._train[:count]) or "nothing"
        for experience in self._test[count:]:
            name = experience.task.name
            asked = f"asked for {name!r}, with {learned} learned, it"
            try:
                with self._watch.only(f"being asked for {name!r}", [experience]):
                    strategy.predict(experience)
            except ContractError:
                raise
            except UserError as error:
                if not re.search(rf"\b{re.escape(name)}\b", str(error)):
                    how = f"{asked} does not name the task: {error}"
                    raise ContractError(Promise.REFUSES, how) from error
            except Exception as error:
                how = f"{asked} raised {_named(error)}, expected a UserError"
                raise ContractError(Promise.REFUSES, how) from error
            else:
                raise ContractError(Promise.REFUSES, f"{asked} answered")

    def unseen_at_once(self) -> None:
        """Let it learn all tasks but one, and ask for that one."""
        strategy = self.make()
        with self._watch.only("learning", [*self._train[:-1], *self._val[:-1]]):
            strategy.learn_all(self._train[:-1], self._val[:-1])
        self.unseen(strategy, len(self._train) - 1)

    def asking_again(self, strategy: Strategy, answers: Answers) -> None:
        """Ask in another order."""
        again = self.ask(strategy, self._test[::-1])
        for name in _other_answers(answers, again):
            how = f"asked for {name!r} again, after other tasks, it answers otherwise"
            raise ContractError(Promise.ANY_ORDER, how)

    def saving(self, strategy: Strategy, answers: Answers) -> None:
        """Save it, and ask what is loaded: once as ever, once with the targets hidden."""
        with TemporaryDirectory() as folder:
            strategy.save(folder)
            loaded, blind = self.load(folder), self.load(folder)
        for name in _other_answers(answers, self.ask(loaded, self._test)):
            raise ContractError(
                Promise.KEPT, f"after saving and loading it answers {name!r} otherwise"
            )
        counts = strategy.parameter_count().total, loaded.parameter_count().total
        if counts[0] != counts[1]:
            how = f"it had {counts[0]} parameters, and after saving and loading {counts[1]}"
            raise ContractError(Promise.KEPT, how)
        # Another one than was asked just now: it could have kept its answers.
        for name in _other_answers(answers, self.ask(blind, self._test, hide=True)):
            how = f"with other targets of the same samples it answers {name!r} otherwise"
            raise ContractError(Promise.NO_TARGETS, how)

    def load(self, folder: str | Path) -> Strategy:
        """Return a new strategy with what was kept."""
        strategy = self.make()
        given = [*self._train, *self._val] if strategy.keeps_data else []
        with self._watch.only("loading", given):
            strategy.load(folder, self._train)
        return strategy

    def second_run(self, answers: Answers) -> None:
        """Let another one learn the same, asked only in the end."""
        with _randomness(2):
            second = self.make()
            for _ in self.train(second):
                pass
            other = _other_answers(answers, self.ask(second, self._test))
        if not other:
            return
        with _randomness(3):
            _, asked_alike = self.first_run()
        if _other_answers(answers, asked_alike):
            how = f"made and trained twice with the same seed, it answers {other[0]!r} otherwise"
            raise ContractError(Promise.SEED, how)
        how = f"where it was asked between tasks, it learns otherwise, as {other[0]!r} shows"
        raise ContractError(Promise.ANY_ORDER, how)


def _check_form(experience: Experience, predictions: NDArray[Any]) -> None:
    """Compare predictions with the best constant one, and let the task score them."""
    task, samples = experience.task, experience.samples
    few = {name: samples.columns[name][:_FEW] for name in samples.columns}
    row = np.asarray(task.constant(few, samples.store.names))
    given = f"its predictions of {task.name!r} have the shape {predictions.shape}"
    if predictions.ndim != row.ndim + 1 or len(predictions) != len(samples):
        expected = (len(samples), *row.shape)
        raise ContractError(Promise.LEARNS, f"{given}, expected one like {expected}")
    if predictions.dtype.kind == "f" and not np.isfinite(predictions).all():
        how = f"its predictions of {task.name!r} are not all finite"
        raise ContractError(Promise.LEARNS, how)
    try:
        score = task.score(predictions, samples.columns, samples.store.names)[task.metric]
    except Exception as error:
        how = f"{given}, and scoring them raises {_named(error)}"
        raise ContractError(Promise.LEARNS, how) from error
    if not np.isfinite(score):
        raise ContractError(Promise.LEARNS, f"its predictions of {task.name!r} score {score}")


def _check_parameters(strategy: Strategy, last: str) -> None:
    """Compare the count with the model's own, where there is one."""
    total, trainable = strategy.parameter_count()
    if not total >= trainable >= 0:
        how = f"after {last!r} it reports {total} parameters, {trainable} of them trainable"
        raise ContractError(Promise.PARAMETERS, how)
    model = getattr(strategy, "model", None)
    if isinstance(model, nn.Module):
        there = sum(parameter.numel() for parameter in model.parameters())
        if total != there:
            how = f"after {last!r} it reports {total} parameters, but its model has {there}"
            raise ContractError(Promise.PARAMETERS, how)


def _weights(strategy: Strategy) -> dict[str, Tensor]:
    """Return a copy of all that its model holds; nothing where it has none."""
    model = getattr(strategy, "model", None)
    state = model.state_dict() if isinstance(model, nn.Module) else {}
    return {name: value.detach().clone() for name, value in state.items()}


def _same(one: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[n], other[n]) for n in one)


def _other_answers(one: Answers, other: Answers) -> list[str]:
    """Return the tasks that are answered otherwise."""
    return [name for name in one if not np.array_equal(one[name], other[name])]


def _named(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


@contextmanager
def _randomness(number: int) -> Iterator[None]:
    """Put the generators that are global into a state, and back as they were."""
    states = random.getstate(), np.random.get_state(), torch.get_rng_state()
    random.seed(number)
    np.random.seed(number)
    torch.manual_seed(number)
    try:
        yield
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])
        torch.set_rng_state(states[2])
