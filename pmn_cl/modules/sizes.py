"""How large modules are, what they are over, and where they depart from the paper."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from pmn_cl.errors import UserError


@dataclass(frozen=True)
class Sizes:
    """The widths of the paper's layers."""

    hidden: int  # states and questions
    attention: int  # in which soft attention compares
    caption: int  # the two GRU layers of M_cap
    word: int  # word vectors
    terminal: int  # what M_obj and M_att answer with


SIZES = {
    "paper": Sizes(hidden=512, attention=512, caption=1000, word=300, terminal=300),
    "small": Sizes(hidden=64, attention=128, caption=96, word=48, terminal=48),
}


@dataclass(frozen=True)
class WorldShape:
    """What modules must know of a world: the width of a region, and what its numbers name."""

    region: int
    names: Mapping[str, list[str]]

    def count(self, what: str) -> int:
        """Return how many entries a list of names has; refuse a world that has no such list."""
        if what not in self.names:
            raise UserError(
                f"the world has no list of {what!r}, which a module of this stream needs; it has "
                f"{', '.join(self.names) or 'none'}"
            )
        return len(self.names[what])


class Gates(BaseModel):
    """How importance scores become gates."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    kind: Literal["softmax", "sigmoid", "equal", "hard"] = "softmax"
    top: int = Field(default=1, ge=1)  # of each group, with ``hard``
    threshold: float | None = Field(default=None, gt=0, lt=1)  # instead of ``top``, with ``hard``


class Departures(BaseModel):
    """Where a module leaves the paper; all off is the paper. Measured in docs/departures.md."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    positions: bool = False  # Δ_rel sees centre, size and their products, not only corners
    relation_receiver: bool = False  # M_cnt takes a·(l − max l) + b instead of M_rel's l
    count_layer: bool = False  # a linear layer after the counter, near the identity at first
    count_distance: float = Field(default=0.0, ge=0)  # weight of smooth L1 on the expected count
    answer_bias: float = 0.0  # where the answers' biases start
    own_question: bool = False  # M_cnt is asked with the question's words, not M_vqa's state
    question_as_state: bool = False  # M_vqa's q¹ is the question itself, as M_cnt's state is
    supervise_encoder: bool = False  # [b, r] supervision reaches the question encoder too


DEPARTURES = {
    "paper": Departures(),
    "small": Departures(
        positions=True,
        relation_receiver=True,
        count_layer=True,
        count_distance=1.0,
        answer_bias=-1.5,
        own_question=True,
        question_as_state=True,
        supervise_encoder=True,
    ),
}
