"""What is needed to go on with a training, within a task or after it, and how it is kept.

Tensors and plain values only, so that keeping and reading them runs no code.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from pmn_cl.errors import UserError
from pmn_cl.strategy.base import Experience, State

if TYPE_CHECKING:
    from strategies.loop import TaskTemplate

_CLOCK = ("train_iterations", "train_exp_counter", "train_exp_epochs", "train_exp_iterations")
_WEIGHTS, _RECORD = "network.safetensors", "learned.json"


def state_of(strategy: TaskTemplate) -> State:
    """Return the network, the optimizer, the best epoch, all generators and the clock."""
    generators, plain = random_states()
    tensors = under("model", strategy.model.state_dict())
    tensors |= under("random", generators) | under("extra", strategy.extra_state())
    facts: dict[str, Any] = {
        "random": plain,
        "clock": clock_values(strategy.clock),
        "samples_seen": strategy.samples_seen,
        "validation_scores": strategy.validation_scores,
        "trainable": strategy.trainable,
        "operations": strategy.operations.state(),
        "answer_operations": dict(strategy.answer_operations),
        "loss": float(torch.as_tensor(strategy.loss).detach()),  # of the last batch
        "task": None,  # that is being learned
    }
    if strategy.selection.validation is not None:
        facts["task"] = strategy.current_experience().task.name
        tensors |= under("optimizer", optimizer_tensors(strategy.optimizer))
        best, scores = strategy.selection.state()
        tensors |= best
        facts |= scores
    return State(copied(tensors), facts)


def restore(strategy: TaskTemplate, state: State, done: Sequence[Experience]) -> None:
    """Build what these experiences made, and go on where the state was taken."""
    tensors, facts = state
    strategy.samples_seen = facts["samples_seen"]
    strategy.validation_scores = dict(facts["validation_scores"])
    strategy.build(done, part("model", tensors))
    strategy.trainable = facts["trainable"]
    if facts["task"] is None:
        _restore_surroundings(strategy, state)
    else:
        strategy.resume_from = state  # as soon as the task is prepared


def resume(strategy: TaskTemplate, state: State) -> None:
    """Go on in the middle of the task that has just been prepared."""
    tensors, facts = state
    strategy.model.load_state_dict(part("model", tensors))
    load_optimizer(strategy.optimizer, part("optimizer", tensors))
    strategy.selection.load_state(tensors, facts)
    strategy.samples_seen = facts["samples_seen"]
    _restore_surroundings(strategy, state)


def _restore_surroundings(strategy: TaskTemplate, state: State) -> None:
    """Put back what plugins remember, the clock and all random generators."""
    strategy.load_extra_state(part("extra", state.tensors))
    if "operations" in state.facts:  # older states have none
        strategy.operations.load_state(state.facts["operations"])
        strategy.answer_operations = dict(state.facts.get("answer_operations", {}))
    strategy.loss = torch.tensor(state.facts.get("loss", 0.0))
    set_clock(strategy.clock, state.facts["clock"])
    load_random_states(part("random", state.tensors), state.facts["random"])


def save(strategy: TaskTemplate, folder: Path) -> None:
    """Keep the network's weights, and what was learned in which order."""
    folder.mkdir(parents=True, exist_ok=True)
    save_file(copied(strategy.model.state_dict()), folder / _WEIGHTS)
    kept = {
        "tasks": [experience.task.name for experience in strategy.experiences.values()],
        "samples_seen": strategy.samples_seen,
        "validation_scores": strategy.validation_scores,
    }
    (folder / _RECORD).write_text(json.dumps(kept, indent=1), "utf-8")


def load(strategy: TaskTemplate, folder: Path, experiences: Sequence[Experience]) -> None:
    """Build the network that these experiences made, and take its weights."""
    try:
        kept = json.loads((folder / _RECORD).read_text("utf-8"))
        weights = load_file(folder / _WEIGHTS)
    except OSError as error:
        raise UserError(f"{folder}: nothing was kept there: {error.strerror}") from None
    given = [experience.task.name for experience in experiences]
    if kept["tasks"] != given:
        learned = ", ".join(kept["tasks"])
        raise UserError(f"{folder}: what is there learned {learned}, not {', '.join(given)}")
    try:
        strategy.build(experiences, weights)
        strategy.model.load_state_dict(weights)
    except RuntimeError as error:
        raise UserError(f"{folder}: does not fit this strategy's options: {error}") from None
    strategy.samples_seen = kept["samples_seen"]
    strategy.validation_scores = kept["validation_scores"]


def under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return tensors with longer names."""
    return {f"{prefix}/{name}": value for name, value in tensors.items()}


def part(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors of a prefix, with short names."""
    start = f"{prefix}/"
    return {n.removeprefix(start): t for n, t in tensors.items() if n.startswith(start)}


def copied(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return copies on the CPU, each with memory of its own."""
    return {name: value.detach().cpu().clone() for name, value in tensors.items()}


def optimizer_tensors(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Return what an optimizer remembers of each parameter."""
    return {
        f"{number}/{name}": value
        for number, remembered in optimizer.state_dict()["state"].items()
        for name, value in remembered.items()
    }


def load_optimizer(optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Put back what an optimizer remembered."""
    state: dict[int, dict[str, Tensor]] = {}
    for name, value in tensors.items():
        number, _, what = name.partition("/")
        state.setdefault(int(number), {})[what] = value
    groups = optimizer.state_dict()["param_groups"]
    optimizer.load_state_dict({"state": state, "param_groups": groups})


def random_states() -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return the states of all random generators: tensors and plain values."""
    kind, keys, place, has_gauss, gauss = np.random.get_state()  # plugins use it
    version, numbers, next_gauss = random.getstate()
    tensors = {
        "torch": torch.get_rng_state(),
        "numpy": torch.from_numpy(np.asarray(keys, dtype=np.int64)),
        "python": torch.tensor(numbers, dtype=torch.int64),
    }
    plain = {"numpy": [kind, place, has_gauss, gauss], "python": [version, next_gauss]}
    return tensors, plain


def load_random_states(tensors: Mapping[str, Tensor], plain: Mapping[str, Any]) -> None:
    """Put all random generators into such states."""
    torch.set_rng_state(tensors["torch"])
    kind, place, has_gauss, gauss = plain["numpy"]
    keys = tensors["numpy"].numpy().astype(np.uint32)
    np.random.set_state((kind, keys, place, has_gauss, gauss))
    version, next_gauss = plain["python"]
    random.setstate((version, tuple(tensors["python"].tolist()), next_gauss))


def clock_values(clock: Any) -> dict[str, int]:
    """Return the time of Avalanche's clock."""
    return {name: getattr(clock, name) for name in _CLOCK}


def set_clock(clock: Any, values: Mapping[str, int]) -> None:
    """Set Avalanche's clock to such a time."""
    for name in _CLOCK:
        setattr(clock, name, values[name])
