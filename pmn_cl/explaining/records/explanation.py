"""What an explanation is: the execution of one question as plain data. No torch here.

Text, picture, page and sentence are made from an ``Explanation`` alone. Shares and probabilities
are from 0 to 1; regions are numbered from 0.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field, computed_field

ATTEND, RESIDUAL = "Ω", "Δ"  # M_vqa's own attention, and what it works out by itself
RELATION, CAPTION = "rel", "cap"

Box = tuple[float, float, float, float]


class _Part(BaseModel):
    """A part of the record. What stands below its fields becomes the schema's descriptions."""

    # Not "forbid": the sentence is written with the record, and worked out anew when it is read.
    model_config = ConfigDict(extra="ignore", frozen=True, use_attribute_docstrings=True)


class Message(_Part):
    """A query or a reply, in words and in numbers."""

    words: str = ""
    """In plain words; empty where it is a vector that has none."""
    boxes: list[float] = Field(default_factory=list)
    """The share of each region, where it is about regions."""
    chances: dict[str, float] = Field(default_factory=dict)
    """The probabilities of the likeliest names, the likeliest first, where it is about names."""


class CallRecord(_Part):
    """One query of a caller to a callee."""

    number: int
    """In the order of asking, from 1."""
    depth: int
    """0 for calls of M_vqa itself."""
    caller: str
    callee: str
    step: int
    """Of the caller, from 1; 0 for calls before the first."""
    gate: float | None
    """How much the callee matters to the caller; null where there is no such choice."""
    query: Message
    reply: Message


class Step(_Part):
    """One of M_vqa's steps: where it looked, and which callees it used."""

    gates: dict[str, float]
    """By callee."""
    maps: dict[str, list[float]]
    """The share of each region in the maps of Ω and M_rel; all other callees describe regions."""
    attended: list[float]
    """The share of each region in where it looked: those maps, by their gates."""
    pad: dict[str, str]
    """The scratch pad in words, by callee, as far as its entries have any."""
    listened: list[float] = Field(default_factory=list)
    """The attention on each word of the caption, where there was one."""


class Explanation(_Part):
    """How one question about one scene was answered."""

    run: str
    """The key of the run whose network answers."""
    strategy: str
    split: str
    scene: int
    question_id: int | None = None
    """The row of the split's vqa table; null for a question in free text."""
    question: str
    unknown_words: list[str] = Field(default_factory=list)
    """Words of the question that the network never learned; they were left out."""
    answer: str
    confidence: float
    """The answer's probability; each answer has its own, and they need not sum to 1."""
    runners_up: list[tuple[str, float]]
    """The next likeliest answers with their probabilities."""
    truth: str | None = None
    right: bool | None = None
    boxes: list[Box]
    """x1, y1, x2, y2 of each region, from 0 to 1."""
    regions: list[str]
    """What the network's own modules take each region for."""
    attended: list[float]
    """The share of each region in where it looked, in the last step."""
    steps: list[Step]
    calls: list[CallRecord]
    """All of them, in the order of asking."""
    caption: list[str] = Field(default_factory=list)
    """The words that M_vqa received from M_cap."""

    @computed_field(description="The trace in one sentence.")  # type: ignore[prop-decorator]
    @property
    def sentence(self) -> str:
        """Return the trace in one sentence: it names only what mattered, with the numbers."""
        from pmn_cl.explaining.records.sentence import sentence_of

        return sentence_of(self)

    @property
    def caption_attention(self) -> list[float]:
        """Return the attention on each word, in the step with the widest gate for M_cap."""
        some = [step for step in self.steps if step.listened]
        return max(some, key=lambda s: s.gates.get(CAPTION, 0.0)).listened if some else []
