"""Penalties on what weights were important for earlier tasks.

- ``Ewc``: elastic weight consolidation (Kirkpatrick et al. 2017)
- ``Si``: synaptic intelligence (Zenke, Poole & Ganguli 2017)
- ``Mas``: memory aware synapses (Aljundi et al. 2018)
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from baselines.options import EwcOptions, MasOptions, SiOptions
from baselines.standard.plugin import WithPlugin
from pmn_cl.data.loader import Batches
from pmn_cl.strategy.avalanche import import_avalanche

import_avalanche()

from avalanche.training.plugins import (  # noqa: E402
    EWCPlugin,
    MASPlugin,
    SynapticIntelligencePlugin,
)
from avalanche.training.utils import ParamData  # noqa: E402


class _Regularised(WithPlugin):
    """Adds strength · Σ importance · (θ − θ*)² to the loss, θ* the weights as they were learned."""

    def penalty(self) -> float:
        """Return what the weights, as they are now, add to the loss.

        It is 0 until a second task moves them away from where the first one left them.
        """
        asked = SimpleNamespace(
            model=self.model,
            device=self.device,
            clock=self.clock,
            # Not from 0, which MAS takes for a loss that is missing; small penalties need digits.
            loss=torch.ones((), dtype=torch.float64, device=self.device),
        )
        with torch.no_grad():
            self.plugin.before_backward(asked)
        return float(asked.loss) - 1

    @abstractmethod
    def tables(self) -> dict[str, dict[str, ParamData]]:
        """Return what the plugin knows of each weight."""

    def extra_state(self) -> dict[str, Tensor]:
        """Return what the plugin knows."""
        return {
            f"{table}/{weight}": known.data
            for table, weights in self.tables().items()
            for weight, known in weights.items()
        }

    def load_extra_state(self, tensors: Mapping[str, Tensor]) -> None:
        """Let the plugin know it again."""
        tables = self.tables()
        for name, value in tensors.items():
            table, _, weight = name.partition("/")
            known = value.clone().to(self.device)
            tables[table][weight] = ParamData(weight, init_tensor=known, device=self.device)


class _Ewc(EWCPlugin):  # type: ignore[misc]  # Avalanche has no types
    """EWC that reads whole batches, and lets recurrent layers learn in eval mode on any device."""

    def after_training_exp(self, strategy: Any, **kwargs: Any) -> None:
        """Work out how important each weight was."""
        with _whole_batches(strategy), torch.backends.cudnn.flags(enabled=False):
            super().after_training_exp(strategy, **kwargs)


class Ewc(_Regularised):
    """Weights may move as far as the Fisher information of each earlier task lets them (eq. 3).

    As in Avalanche, its diagonal is the mean square of *batch* gradients of the loss on true
    labels, and λ is not halved.
    """

    Options = EwcOptions

    def make_plugin(self, options: EwcOptions) -> EWCPlugin:
        """Return EWC with a penalty for each earlier task."""
        return _Ewc(ewc_lambda=options.strength)

    def tables(self) -> dict[str, dict[str, ParamData]]:
        """Return importances and weights as they were, for each task so far."""
        return {
            f"{what} {place}": getattr(self.plugin, what)[place]
            for what in ("importances", "saved_params")
            for place in range(len(self.experiences))
        }


class _Si(SynapticIntelligencePlugin):  # type: ignore[misc]
    """SI that remembers.

    On a CPU Avalanche keeps views of the weights instead of copies: what it remembers changes with
    them, and both path and penalty stay 0. It also lets importances be negative, which would
    reward forgetting (its issue 1226).
    """

    def before_training_exp(self, strategy: Any, **kwargs: Any) -> None:
        """Remember the weights that the task starts from."""
        super().before_training_exp(strategy, **kwargs)
        _detach(self.ewc_data[0])

    def before_training_iteration(self, strategy: Any, **kwargs: Any) -> None:
        """Remember the weights before a step."""
        super().before_training_iteration(strategy, **kwargs)
        _detach(self.syn_data["old_theta"])

    def after_training_exp(self, strategy: Any, **kwargs: Any) -> None:
        """Add up how much each weight helped."""
        super().after_training_exp(strategy, **kwargs)
        for importance in self.ewc_data[1].values():
            importance.data = importance.data.clamp(min=0)


class Si(_Regularised):
    """Weights that made the loss fall on their way are held back (eqs. 4 and 5).

    As in Avalanche, the path's gradient is that of the whole loss, penalty included, importances
    end at 0.001, and λ is halved. The path goes to the last epoch, the distance to the best.
    """

    Options = SiOptions

    def make_plugin(self, options: SiOptions) -> SynapticIntelligencePlugin:
        """Return SI."""
        return _Si(si_lambda=options.strength)

    def tables(self) -> dict[str, dict[str, ParamData]]:
        """Return where weights were, how important, and their way so far."""
        theta, importance = self.plugin.ewc_data
        return {"theta": theta, "importance": importance, **self.plugin.syn_data}


class _Mas(MASPlugin):  # type: ignore[misc]
    """MAS for outputs of any shape, that reads whole batches."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.params: dict[str, ParamData] = {}
        self.importance: dict[str, ParamData] = {}

    def after_training_exp(self, strategy: Any, **kwargs: Any) -> None:
        """Work out how important each weight was."""
        flat = strategy.model.register_forward_hook(lambda model, x, outputs: outputs.flatten(1))
        with _whole_batches(strategy):
            super().after_training_exp(strategy, **kwargs)
        flat.remove()


class Mas(_Regularised):
    """Weights that change the squared norm of a sample's outputs are held back (eqs. 2 and 4).

    As in Avalanche, absolute gradients are those of batches, and importances of the tasks are
    averaged with α rather than summed.
    """

    Options = MasOptions

    def make_plugin(self, options: MasOptions) -> MASPlugin:
        """Return MAS."""
        return _Mas(lambda_reg=options.strength, alpha=options.alpha)

    def tables(self) -> dict[str, dict[str, ParamData]]:
        """Return where weights were, and how important."""
        return {"params": self.plugin.params, "importance": self.plugin.importance}


@dataclass
class _WholeBatches:
    """Samples of a task as a data set of which torch's loader takes a batch at a time."""

    batches: Batches

    def __len__(self) -> int:
        return len(self.batches)

    def __getitems__(self, rows: list[int]) -> tuple[Any, Any, Tensor]:
        x, y = self.batches[torch.tensor(rows)]
        return x.set("y", y), y, y["task"]

    def collate_fn(self, batch: Any) -> Any:
        """Return what is a batch already."""
        return batch


@contextmanager
def _whole_batches(strategy: Any) -> Iterator[None]:
    """Let a plugin read what was learned from in whole batches."""
    experience = strategy.experience
    strategy.experience = SimpleNamespace(dataset=_WholeBatches(experience.batches))
    try:
        yield
    finally:
        strategy.experience = experience


def _detach(table: dict[str, ParamData]) -> None:
    """Give all values memory of their own."""
    for known in table.values():
        known.data = known.data.clone()
