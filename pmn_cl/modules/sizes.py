"""How large modules are, what they are over, and where they depart from the paper."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from pmn_cl.errors import UserError


@dataclass(frozen=True)
class Sizes:
    """The widths of the paper's layers."""

    hidden: int  # states and questions
    knowledge: int  # what M_vqa makes of its callees' answers
    attention: int  # in which soft attention compares
    relation: int  # a box, a relation and their product in M_rel
    relation_attention: int  # in which M_rel compares them
    caption: int  # the two GRU layers of M_cap
    word: int  # word vectors
    terminal: int  # what M_obj and M_att answer with


SIZES = {
    "paper": Sizes(
        hidden=512,
        knowledge=512,
        attention=512,
        relation=512,
        relation_attention=512,
        caption=1000,
        word=300,
        terminal=300,
    ),
    "small": Sizes(
        hidden=64,
        knowledge=128,
        attention=128,
        relation=192,
        relation_attention=256,
        caption=96,
        word=48,
        terminal=160,
    ),
}


@dataclass(frozen=True)
class WorldShape:
    """What modules must know of a world: the width of a region, and what its numbers name."""

    region: int
    names: Mapping[str, list[str]]

    def count(self, what: str) -> int:
        """Return how many entries a list of names has."""
        return len(self.list_of(what))

    def list_of(self, what: str) -> list[str]:
        """Return a list of names; refuse a world that has no such list."""
        if what not in self.names:
            raise UserError(
                f"the world has no list of {what!r}, which a module of this stream needs; it has "
                f"{', '.join(self.names) or 'none'}"
            )
        return self.names[what]


class Gates(BaseModel):
    """How importance scores become gates."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    kind: Literal["softmax", "sigmoid", "equal", "hard"] = "softmax"
    top: int = Field(default=1, ge=1)  # of each group, with ``hard``
    threshold: float | None = Field(default=None, gt=0, lt=1)  # instead of ``top``, with ``hard``


class Departures(BaseModel):
    """Where a module leaves the paper; all off is the paper. Measured in docs/departures.md."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    positions: bool = False  # Δ_rel sees centre, size and waves over the centre, not only corners
    caption_positions: bool = False  # M_cap sees where regions are: in Ω, Δ and their mean
    scaled_start: bool = False  # layers that are multiplied start at the scale of their input
    singulars: bool = False  # a plural has the word vector of its singular
    shared_projection: bool = False  # Ω and b compare with the same g(d)
    relation_receiver: bool = False  # M_cnt takes a·l + b instead of M_rel's l
    count_layer: bool = False  # a linear layer after the counter, near the identity at first
    count_boxes: int | None = Field(default=None, ge=1)  # that are counted; None: as the counts go
    question_answers: bool = False  # a linear layer from the question alone is added to Ψ_vqa
    joint_steps: bool = False  # Ψ_vqa also fuses the question with the knowledge of both steps
    own_question: bool = False  # M_cnt is asked with the question's words, not M_vqa's state
    question_as_state: bool = False  # M_vqa's q¹ is the question itself, as M_cnt's state is
    supervise_encoder: bool = False  # [b, r] supervision reaches the question encoder too

    def only(self, names: Iterable[str]) -> Departures:
        """Return these of the departures, and the paper for all others."""
        return Departures.model_validate({name: getattr(self, name) for name in names})


DEPARTURES = {
    "paper": Departures(),
    "small": Departures(
        positions=True,
        caption_positions=True,
        scaled_start=True,
        singulars=True,
        shared_projection=True,
        relation_receiver=True,
        count_layer=True,
        count_boxes=18,
        question_answers=True,
        own_question=True,
        question_as_state=True,
        supervise_encoder=True,
    ),
}
