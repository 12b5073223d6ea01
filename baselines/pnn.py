"""Progressive Neural Networks (Rusu et al. 2016): a column per task, joined to earlier ones.

With h⁽ʲ⁾ᵢ the activations of layer i in column j, and those of all columns before k stacked as
h⁽<ᵏ⁾ᵢ, a layer is, with adapters (eq. 2) and without (eq. 1),

    h⁽ᵏ⁾ᵢ = σ( W⁽ᵏ⁾ᵢ h⁽ᵏ⁾ᵢ₋₁ + U⁽ᵏ⁾ᵢ σ( V⁽ᵏ⁾ᵢ · α⁽<ᵏ⁾ᵢ₋₁ ⊙ h⁽<ᵏ⁾ᵢ₋₁ ) )
    h⁽ᵏ⁾ᵢ = σ( W⁽ᵏ⁾ᵢ h⁽ᵏ⁾ᵢ₋₁ + Σⱼ U⁽ᵏ:ʲ⁾ᵢ h⁽ʲ⁾ᵢ₋₁ )

α one learned number per earlier column and layer. A column is frozen when its task is learned, so
nothing is ever forgotten, and what is learned next grows with the number of columns before it.

Here a column is all that a task needs: two layers over regions, and, where its head looks at more
than regions, a reader of its query and their fusion; then the head. Laterals go from the first
layer into the second, from the second into what looks at regions (fusion and head), and from the
fused vector into the head. The last two are added in front of the layers they feed, of which
there are several and different ones: W (h + U …) is the equations' W h + U …, with W U for U.

An earlier column looks at the sample of the new task. Its regions are there whatever is asked. Its
fused vector is received where the new task asks all that the earlier one asks: a question's column
receives from captions, which ask nothing, and other questions; not from the relation's column,
which would need a box and a relation, and nothing is made up in their place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from baselines.common.heads import Head, RegionHead, Teacher, head_for
from baselines.common.network import HeadsNetwork, HeadsStrategy
from baselines.common.trunk import Fusion, HeadInput, NetworkPlan, QueryReader
from baselines.options import PnnOptions
from pmn_cl.modules.layers import ScaledLinear
from pmn_cl.modules.places import PLACES, observed
from pmn_cl.modules.runtime.environment import Environment
from pmn_cl.strategy.base import Experience
from pmn_cl.tasks.base import Task


class Wiring(NamedTuple):
    """How columns are joined."""

    adapters: bool = True
    alpha: float = 0.1  # where it starts


class Lateral(nn.Module):
    """Adds to a layer what it receives from so many earlier columns, all equally wide.

    U has no bias of its own, as that of W is added to the same sum.
    """

    def __init__(self, received: int, width: int, columns: int, wiring: Wiring) -> None:
        super().__init__()
        self.received, self.columns, self.adapters = received, columns, wiring.adapters
        if columns and wiring.adapters:
            self.alpha = nn.Parameter(torch.full((columns,), wiring.alpha))
            self.V = nn.Linear(columns * received, received)
            self.U = nn.Linear(received, width, bias=False)
        elif columns:
            self.U = nn.Linear(columns * received, width, bias=False)  # all U⁽ᵏ:ʲ⁾ side by side

    def forward(self, own: Tensor, earlier: Sequence[Tensor]) -> Tensor:
        """Return the layer (…, width) with what comes from earlier ones, each (…, received)."""
        if len(earlier) != self.columns:
            raise ValueError(f"{len(earlier)} columns came, expected {self.columns}")
        if not earlier:
            return own
        stacked = torch.cat(list(earlier), dim=-1)
        if self.adapters:
            # V (α ⊙ h) = (V ⊙ α) h: a matrix is smaller than all activations of a batch.
            scaled = self.V.weight * self.alpha.repeat_interleave(self.received)
            stacked = linear(stacked, scaled, self.V.bias).relu()
        added: Tensor = own + self.U(stacked)
        return added


class LateralLayer(nn.Module):
    """A layer of a column: σ(W h + lateral), σ being ReLU."""

    def __init__(self, below: int, width: int, columns: int, wiring: Wiring) -> None:
        super().__init__()
        self.W = ScaledLinear(below, width)
        self.lateral = Lateral(below, width, columns, wiring)

    def forward(self, below: Tensor, earlier: Sequence[Tensor]) -> Tensor:
        """Return h (…, width) of the layer below, in this column and in earlier ones."""
        layer: Tensor = self.lateral(self.W(below), earlier)
        return layer.relu()


class RegionColumn(NamedTuple):
    """The two layers of a column over regions, each (S, N, width)."""

    first: Tensor
    second: Tensor


class Column(nn.Module):
    """Encoder and head of one task."""

    def __init__(
        self, plan: NetworkPlan, task: Task, earlier: Sequence[Column], wiring: Wiring
    ) -> None:
        super().__init__()
        self.task, self.frozen = task, False
        width, columns = plan.width, len(earlier)
        self.first = ScaledLinear(plan.shape.region + PLACES, width)
        self.second = LateralLayer(width, width, columns, wiring)
        self.regions = Lateral(width, width, columns, wiring)
        self.head = head_for(task, plan)
        # What a head does not look at would never learn, and has nothing to give to later columns.
        self.fuses = not isinstance(self.head, RegionHead)
        if self.fuses:
            self.reader = QueryReader(plan, task)
            self.fusion = Fusion(plan)
            self.receives_from = {c.task.name for c in earlier if c.fuses and c.can_read(task)}
            self.fused = Lateral(width, width, len(self.receives_from), wiring)
        else:
            self.receives_from = set()

    def can_read(self, task: Task) -> bool:
        """Whether samples of a task ask what this column's reader reads."""
        return set(self.task.query) <= set(task.query)

    def freeze(self) -> None:
        """Learn no more; neither weights nor any statistics change from here on."""
        self.frozen = True
        self.requires_grad_(False)
        self.eval()

    def train(self, mode: bool = True) -> Column:
        """Go to training mode, unless frozen."""
        return super().train(mode and not self.frozen)

    def look(self, known: Tensor, earlier: Sequence[RegionColumn]) -> RegionColumn:
        """Return the layers over what is known of regions, given those of the columns before."""
        first = self.first(known).relu()
        return RegionColumn(first, self.second(first, [regions.first for regions in earlier]))

    def see(self, env: Environment, looks: Sequence[RegionColumn]) -> HeadInput:
        """Return what the head sees without the others' fused vectors; the last look is its own."""
        *earlier, own = looks
        regions = self.regions(own.second, [other.second for other in earlier])
        if not self.fuses:
            nothing = regions.new_zeros(0)
            return HeadInput(regions, nothing, nothing, nothing)
        seen: HeadInput = self.fusion(regions, self.reader(env, regions), env)
        return seen

    def forward(
        self,
        env: Environment,
        looks: Sequence[RegionColumn],
        fused: Sequence[Tensor],
        teacher: Teacher,
    ) -> Tensor:
        """Return the outputs of the task, given its look at the regions and what it receives."""
        seen = self.see(env, looks)
        if self.fuses:
            seen = seen._replace(fused=self.fused(seen.fused, fused))
        outputs: Tensor = self.head(seen, env, teacher)
        return outputs


class ProgressiveNetwork(HeadsNetwork):
    """Columns in the order in which their tasks were learned."""

    def __init__(self, plan: NetworkPlan, wiring: Wiring | None = None) -> None:
        super().__init__(plan)
        self.wiring = wiring or Wiring()
        self.columns = nn.ModuleDict()

    def __getitem__(self, task: str) -> Column:
        """Return the column of a task."""
        column = self.columns[task]
        assert isinstance(column, Column)
        return column

    def grow(self, task: Task) -> None:
        """Add a column that receives from all that are there."""
        earlier = [self[name] for name in self.columns]
        self.columns[task.name] = Column(self.plan, task, earlier, self.wiring)

    def head(self, task: str) -> Head:
        """Return the head of a task."""
        return self[task].head

    def answer(self, env: Environment, task: Task, teacher: Mapping[str, Tensor] | None) -> Tensor:
        """Let the task's column answer; those after it are not asked, those before do not learn."""
        names = list(self.columns)
        column, known = self[task.name], observed(env)
        looks: list[RegionColumn] = []
        fused: list[Tensor] = []
        with torch.no_grad():
            for name in names[: names.index(task.name)]:
                looks.append(self[name].look(known, looks))
                if name in column.receives_from:
                    fused.append(self[name].see(env, looks).fused)
        looks.append(column.look(known, looks))
        outputs: Tensor = column(env, looks, fused, teacher)
        return outputs


class ProgressiveColumns(HeadsStrategy):
    """Learns each task with a new column, and freezes it."""

    Options = PnnOptions
    kind = ProgressiveNetwork

    def make_network(self, plan: NetworkPlan) -> ProgressiveNetwork:
        """Return the network before its first column."""
        return self.kind(plan, Wiring(self.options.adapters, self.options.alpha))

    def learning(self, experience: Experience) -> nn.Module:
        """Return the new column."""
        column: Column = self.network[experience.task.name]
        return column

    def finish(self, experience: Experience) -> None:
        """Freeze the column."""
        self.network[experience.task.name].freeze()
