"""The state of a training in the middle of a task: everything that decides how it goes on.

Tensors and plain values only, so that keeping and reading them runs no code.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

_CLOCK = ("train_iterations", "train_exp_counter", "train_exp_epochs", "train_exp_iterations")


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
    """Let an optimizer remember again."""
    state: dict[int, dict[str, Tensor]] = {}
    for name, value in tensors.items():
        number, _, what = name.partition("/")
        state.setdefault(int(number), {})[what] = value
    groups = optimizer.state_dict()["param_groups"]
    optimizer.load_state_dict({"state": state, "param_groups": groups})


def random_states() -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return where all random generators are: tensors and plain values."""
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
    """Put all random generators where they were."""
    torch.set_rng_state(tensors["torch"])
    kind, place, has_gauss, gauss = plain["numpy"]
    keys = tensors["numpy"].numpy().astype(np.uint32)
    np.random.set_state((kind, keys, place, has_gauss, gauss))
    version, next_gauss = plain["python"]
    random.setstate((version, tuple(tensors["python"].tolist()), next_gauss))


def clock_values(clock: Any) -> dict[str, int]:
    """Return where Avalanche's clock is."""
    return {name: getattr(clock, name) for name in _CLOCK}


def set_clock(clock: Any, values: Mapping[str, int]) -> None:
    """Put Avalanche's clock where it was."""
    for name in _CLOCK:
        setattr(clock, name, values[name])
