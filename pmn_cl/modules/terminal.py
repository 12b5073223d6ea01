"""M_obj and M_att (appendix A.1): what a region shows, as a vector; no calls to others."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor, nn

from pmn_cl.modules.runtime.environment import Environment
from pmn_cl.modules.runtime.memoisation import per_query
from pmn_cl.modules.task_module import ModulePlan, TaskModule


class TerminalModule(TaskModule):
    """One tanh layer on a region's features; the classifier on top serves training alone."""

    labels: str  # the list of names that the classifier is over

    def __init__(self, plan: ModulePlan, callees: Mapping[str, TaskModule]) -> None:
        super().__init__(plan, callees)
        self.answer_width = plan.sizes.terminal
        self.project = nn.Linear(plan.shape.region, plan.sizes.terminal)
        self.classifier = nn.Linear(plan.sizes.terminal, plan.shape.count(self.labels))

    def own_query(self, env: Environment) -> Tensor:
        """Ask about every region."""
        return env.regions

    @per_query
    def forward(self, query: Tensor, env: Environment) -> Tensor:
        """Return the vectors (…, terminal) of region features (…, d)."""
        named: Tensor = self.project(query).tanh()
        return named

    def outputs(self, answer: Tensor, env: Environment) -> Tensor:
        """Return the class scores of the vectors."""
        scores: Tensor = self.classifier(answer)
        return scores


class ObjectModule(TerminalModule):
    """M_obj: which object a region shows."""

    task, labels, vocabulary, departs = "obj", "objects", ("objects",), ()


class AttributeModule(TerminalModule):
    """M_att: which attributes a region has."""

    task, labels, vocabulary, departs = "att", "attributes", ("attributes",), ()
