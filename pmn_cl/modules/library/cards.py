"""The module library: a learned module in a file of its own, to be kept, shared and loaded alone.

A file holds the weights (safetensors: reading them runs no code) and a card that says what the
module is, what it calls, and what it was learned from. Not here: training.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from pmn_cl import __version__, registry
from pmn_cl.data.world import cache_folder
from pmn_cl.errors import UserError, did_you_mean
from pmn_cl.modules.sizes import Departures, Gates, Sizes, WorldShape
from pmn_cl.modules.task_module import ModulePlan, TaskModule, digest_of, digest_of_tensors

SUFFIX = ".safetensors"


class Card(BaseModel):
    """What is known of a learned module."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: Literal[1] = 1
    made_by: str = f"pmn-bench {__version__}"
    task: str
    level: int
    module: str  # package.module:Name
    calls: dict[str, str]  # the identity of every module that it calls
    shares: str | None = None  # the callee whose question encoder, Ω and Q→rel it uses
    tuned_for: str | None = None  # the task whose module changed it, where the old one was kept
    identity: str  # of the module with all that it calls
    digest: str  # of its own parameters and buffers
    region: int  # width of a region's features
    sizes: dict[str, int]
    gates: dict[str, Any]
    departures: dict[str, Any]
    vocabulary: dict[str, list[str]]
    data: str  # digest of the store it was learned from
    metric: str
    score: float | None  # on validation

    @property
    def name(self) -> str:
        """Return what the module is called in a library."""
        return f"{self.task}-{self.identity[:10]}"

    def plan(self) -> ModulePlan:
        """Return what the module is to be built from."""
        return ModulePlan(
            WorldShape(self.region, self.vocabulary),
            Sizes(**self.sizes),
            Gates.model_validate(self.gates),
            Departures.model_validate(self.departures),
        )


def card_of(
    module: TaskModule,
    *,
    level: int,
    data: str,
    metric: str,
    score: float | None,
    tuned_for: str | None = None,
) -> Card:
    """Write the card of a frozen module."""
    if module.identity is None:
        raise UserError(f"M_{module.task} is still learning: only a frozen module can be kept")
    plan, kind, names = module.plan, type(module), module.plan.shape.names
    return Card(
        task=module.task,
        level=level,
        module=f"{kind.__module__}:{kind.__qualname__}",
        calls={name: str(callee.identity) for name, callee in module.callees.items()},
        shares=module.shares,
        tuned_for=tuned_for,
        identity=module.identity,
        digest=digest_of(module),
        region=plan.shape.region,
        sizes=asdict(plan.sizes),
        gates=plan.gates.model_dump(),
        departures=plan.departures.model_dump(),
        vocabulary={name: names[name] for name in kind.vocabulary if name in names},
        data=data,
        metric=metric,
        score=score,
    )


def save(module: TaskModule, card: Card, folder: Path) -> Path:
    """Write a module into a folder; it appears whole or not at all."""
    if module.identity != card.identity:
        raise UserError(f"the card of {card.name} is not that of this module: write a new one")
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{card.name}{SUFFIX}"
    partial = path.with_suffix(f".{os.getpid()}.partial")
    weights = {name: value.contiguous() for name, value in module.state_dict().items()}
    save_file(weights, partial, metadata={"card": card.model_dump_json()})
    os.replace(partial, path)
    return path


def read_card(path: Path) -> Card:
    """Return the card of a module's file."""
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
        return Card.model_validate_json(metadata["card"])
    except FileNotFoundError:
        raise UserError(f"{path}: no such file") from None
    except (SafetensorError, OSError) as error:
        raise UserError(f"{path}: cannot be read as a module: {error}") from None
    except KeyError:
        raise UserError(f"{path}: has no card, expected a module kept by pmn-bench") from None
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise UserError(f"{path}: its card cannot be read: {where}: {first['msg']}") from None


def read_library(folder: Path) -> dict[Path, Card]:
    """Return the cards of all modules in a folder."""
    if not folder.is_dir():
        return {}
    return {path: read_card(path) for path in sorted(folder.glob(f"*{SUFFIX}"))}


def load(path: Path, callees: Mapping[str, TaskModule]) -> TaskModule:
    """Return a kept module, frozen, on top of the very modules that it was learned on."""
    card = read_card(path)
    check_callees(card, callees, str(path))
    kind: type[TaskModule] = registry.find(card.module, registry.MODULES, "module", TaskModule)
    try:
        module = kind(card.plan(), {name: callees[name] for name in card.calls})
        if card.shares is not None:
            module.share(card.shares)
    except (UserError, TypeError, ValueError, KeyError, RuntimeError, AttributeError) as error:
        reason = str(error).splitlines()[0]
        raise UserError(f"{path}: no module can be built from its card: {reason}") from None
    try:
        module.load_state_dict(load_weights(path))
    except RuntimeError as error:
        reason = str(error).splitlines()[-1].strip()
        raise UserError(f"{path}: the weights do not fit {card.module}: {reason}") from None
    if digest_of(module) != card.digest:
        raise UserError(f"{path}: the weights do not match the card's digest; get it anew")
    module.freeze()
    if module.identity != card.identity:
        raise UserError(f"{path}: the card does not describe this module; get it anew")
    return module


def check_callees(card: Card, callees: Mapping[str, TaskModule], where: str) -> None:
    """Refuse a module whose callees are missing or are not those that it was learned on."""
    for name, identity in card.calls.items():
        if name not in callees:
            known = ", ".join(callees) or "none"
            raise UserError(f"{where}: M_{card.task} calls {name!r}, which is not there ({known})")
        found = callees[name].identity or "one that is still learning"
        if found != identity:
            raise UserError(
                f"{where}: M_{card.task} was learned on {name}-{identity[:10]}, but the network "
                f"has {name}-{found[:10]}; load that one first"
            )


def check_world(card: Card, shape: WorldShape, where: str) -> None:
    """Refuse a module that was learned in a world of other widths or other words."""
    if card.region != shape.region:
        raise UserError(
            f"{where}: M_{card.task} looks at regions of width {card.region}, this world's have "
            f"{shape.region}"
        )
    for what, words in card.vocabulary.items():
        ours = shape.names.get(what, [])
        if list(ours) != words:
            detail = "in another order"
            for more, fewer, where_not in ((ours, words, "to it"), (words, ours, "here")):
                odd = [word for word in more if word not in fewer]
                detail = f"{odd[0]!r} is unknown {where_not}" if odd else detail
            raise UserError(
                f"{where}: M_{card.task} knows {len(words)} {what}, this world has {len(ours)} "
                f"({detail})"
            )


def default_folder() -> Path:
    """Return where modules are kept unless a folder is given."""
    return cache_folder() / "modules"


def find_module(folder: Path, name: str) -> Path:
    """Return the file of the one module whose name begins like this."""
    names = {card.name: path for path, card in read_library(folder).items()}
    fitting = [known for known in names if known.startswith(name)]
    if len(fitting) != 1:
        found = f"{len(fitting)} modules begin with" if fitting else "no module begins with"
        near = did_you_mean(name, names)
        raise UserError(f"{folder}: {found} {name!r}; there are {', '.join(names) or 'none'}{near}")
    return names[fitting[0]]


def copy_module(path: Path, library: Path, folder: Path, *, alone: bool) -> list[Path]:
    """Copy a module, after all that it calls, into another folder."""
    by_identity = {card.identity: known for known, card in read_library(library).items()}
    copied: list[Path] = []
    if not alone:
        for name, identity in read_card(path).calls.items():
            if identity not in by_identity:
                raise UserError(f"{path}: calls {name}-{identity[:10]}, which is not in {library}")
            for below in copy_module(by_identity[identity], library, folder, alone=False):
                if below not in copied:
                    copied.append(below)
    return [*copied, _copy(path, folder)]


def import_modules(given: Iterable[Path], library: Path) -> list[Path]:
    """Copy files, or the modules in folders, into the library; nothing if one is unreadable."""
    files = [
        file
        for path in given
        for file in (sorted(path.glob(f"*{SUFFIX}")) if path.is_dir() else [path])
    ]
    for file in files:
        weights, card = load_weights(file), read_card(file)
        if digest_of_tensors(weights) != card.digest:
            raise UserError(f"{file}: the weights do not match the card's digest; get it anew")
    return [_copy(file, library) for file in files]


def _copy(path: Path, folder: Path) -> Path:
    """Copy a module's file under its usual name; it appears whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"{read_card(path).name}{SUFFIX}"
    partial = target.with_suffix(f".{os.getpid()}.partial")
    shutil.copyfile(path, partial)
    os.replace(partial, target)
    return target


def load_weights(path: Path) -> dict[str, Tensor]:
    """Return the tensors of a module's file."""
    try:
        weights: dict[str, Tensor] = load_file(path)
    except (SafetensorError, OSError) as error:
        raise UserError(f"{path}: cannot be read as a module: {error}") from None
    return weights
