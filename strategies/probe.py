"""The wide probe: what can be read off a region, by a network that no other module builds on."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor, nn

from pmn_cl.modules.runtime.environment import Environment
from pmn_cl.modules.runtime.memoisation import per_query
from pmn_cl.modules.task_module import ModulePlan, TaskModule
from pmn_cl.modules.terminal import AttributeModule, ObjectModule, TerminalModule
from pmn_cl.strategy.training import TrainingChanges
from strategies.options import PmnOptions, SizeChanges

WIDTH = 256
_DROPOUT = 0.1
# Chosen on the validation split of the digit world; the stream's budget does not change them.
_TRAINING = TrainingChanges(
    learning_rate=4e-3, batch_size=64, epochs=12, schedule="cosine", warmup=50, clip=5.0
)


class Probe(TerminalModule):
    """Two layers and a classifier on a region's features."""

    def __init__(self, plan: ModulePlan, callees: Mapping[str, TaskModule]) -> None:
        super().__init__(plan, callees)
        width = plan.sizes.terminal
        layers = [nn.Linear(plan.shape.region, width), nn.ReLU(), nn.Dropout(_DROPOUT)]
        layers += [nn.Linear(width, width), nn.ReLU()]
        self.add_module("project", nn.Sequential(*layers))  # in the place of the one layer

    @per_query
    def forward(self, query: Tensor, env: Environment) -> Tensor:
        """Return the vectors (B, N, width) of regions; a third of them is padding, and left out."""
        seen = query.new_zeros(*query.shape[:-1], self.answer_width)
        seen[env.mask] = self.project(query[env.mask])
        return seen


class ObjectProbe(Probe, ObjectModule):
    """Which object a region shows."""


class AttributeProbe(Probe, AttributeModule):
    """Which attributes a region has."""


def probe_options() -> PmnOptions:
    """Return the options with which PMN learns probes in the place of M_obj and M_att."""
    kinds = {"obj": ObjectProbe, "att": AttributeProbe}
    return PmnOptions(
        modules={task: f"{kind.__module__}:{kind.__qualname__}" for task, kind in kinds.items()},
        widths=dict.fromkeys(kinds, SizeChanges(terminal=WIDTH)),
        training=dict.fromkeys(kinds, _TRAINING),
    )
