"""An explanation as one sentence, by rules alone. No torch here.

The rule: a callee is named where its gate mattered, that is where the gate, in the step in which
it is widest, is at least an even share of its group (Ω and M_rel give where to look, all others
what is there). Its words and numbers are those of that step. Where a group has one
member there was no choice: Ω is named at each step, without a gate, and Δ not at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from pmn_cl.explaining.records.explanation import ATTEND, CAPTION, RELATION, RESIDUAL, Box

if TYPE_CHECKING:
    from pmn_cl.explaining.records.explanation import CallRecord, Explanation, Step

_MAPS = (ATTEND, RELATION)
MATTERS = 1.0  # a gate, in even shares of its group
MOSTLY = 0.5  # of the attention: less is looking around
SAME_THING = 0.5  # overlap of two boxes, of what they cover together
SURE = 0.5  # probability of what is stated as a fact
LISTENED = 0.15  # attention on a caption's word that is named, beside the largest
_NAMED = 3  # attributes, words


class Named(NamedTuple):
    """A callee that mattered, and when."""

    callee: str
    step: int  # from 1
    gate: float
    chosen: bool  # whether there was anything else to choose


class Place(NamedTuple):
    """The most attended box, with others that cover the same."""

    boxes: list[int]  # the most attended first
    share: float  # of the attention, together
    name: str  # what the network takes it for

    @property
    def words(self) -> str:
        """Return it as a sentence has it."""
        numbers = f"box{'es' if self.boxes[1:] else ''} {' + '.join(map(str, self.boxes))}"
        name = f"the {self.name}" if self.name else "a region"
        return f"{name} ({numbers}, {self.share:.2f})"


def named(explanation: Explanation) -> list[Named]:
    """Return the callees that mattered, in the order of their steps and calls."""
    found: dict[tuple[str, int], Named] = {}
    for number, step in enumerate(explanation.steps, start=1):
        for group in groups(step):
            for callee in group:
                gate, chosen = step.gates[callee], len(group) > 1
                if gate * len(group) < MATTERS or (callee == RESIDUAL and not chosen):
                    continue
                key = (callee, 0 if chosen else number)
                if key not in found or gate > found[key].gate:
                    found[key] = Named(callee, number, gate, chosen)
    order = list(dict.fromkeys(k for step in explanation.steps for k in step.gates))
    return sorted(found.values(), key=lambda n: (n.step, order.index(n.callee)))


def groups(step: Step) -> list[list[str]]:
    """Return the callees between which gates choose: those that give maps, and the others."""
    maps = [k for k in step.gates if k in _MAPS]
    others = [k for k in step.gates if k not in _MAPS]
    return [group for group in (maps, others) if group]


def call_of(explanation: Explanation, callee: str, step: int) -> CallRecord | None:
    """Return M_vqa's call to a callee at a step, where there was one."""
    for call in explanation.calls:
        if (call.depth, call.callee, call.step) == (0, callee, step):
            return call
    return None


def place_of(explanation: Explanation, shares: Sequence[float]) -> Place:
    """Return where an attention map points to."""
    order = sorted(range(len(shares)), key=lambda region: -shares[region])
    top = explanation.boxes[order[0]]
    boxes = [r for r in order if r == order[0] or overlap(top, explanation.boxes[r]) >= SAME_THING]
    return Place(boxes, sum(shares[r] for r in boxes), explanation.regions[order[0]])


def overlap(one: Box, other: Box) -> float:
    """Return what two boxes share, of what they cover together."""
    width = min(one[2], other[2]) - max(one[0], other[0])
    height = min(one[3], other[3]) - max(one[1], other[1])
    shared = max(width, 0.0) * max(height, 0.0)
    both = sum((box[2] - box[0]) * (box[3] - box[1]) for box in (one, other)) - shared
    return shared / both if both > 0 else 0.0


def sentence_of(explanation: Explanation) -> str:
    """Return what mattered, in the order of the steps, and the answer."""
    parts: list[str] = []
    seen: int | None = None  # the box named last
    for part in named(explanation):
        step = explanation.steps[part.step - 1]
        if part.callee in _MAPS:
            before = seen
            clause, seen = _looked(explanation, part, step)
            if not part.chosen and seen == before:  # it went on looking there
                continue
        elif part.callee in ("cnt", CAPTION):
            clause = _received(explanation, part)
        else:
            place = place_of(explanation, step.attended)
            of = "it" if place.boxes[0] == seen else place.words
            clause, seen = _saw(explanation, part, of), place.boxes[0]
        parts.append(clause)
    answer = f"so the answer is {explanation.answer} ({explanation.confidence:.2f})"
    if explanation.runners_up:
        second, probability = explanation.runners_up[0]
        answer += f", before {second} ({probability:.2f})"
    text = "; ".join([*parts, answer])
    return f"{text[:1].upper()}{text[1:]}."


def _gate(part: Named) -> str:
    return f" [gate {part.gate:.2f}]" if part.chosen else ""


def _looked(explanation: Explanation, part: Named, step: Step) -> tuple[str, int]:
    """Return where it looked, by itself or by asking M_rel, and the box that it came to."""
    found = place_of(explanation, step.maps.get(part.callee, step.attended))
    clear = found.share >= MOSTLY
    if part.callee == ATTEND:
        how = "" if clear else "around, most of all "
        return f"I looked {how}at {found.words}{_gate(part)}", found.boxes[0]
    asked = ""
    call = call_of(explanation, RELATION, part.step)
    if call is not None and call.query.boxes and call.query.chances:
        phrase, probability = next(iter(call.query.chances.items()))
        given = place_of(explanation, call.query.boxes)
        asked = f" about {given.words}: “{phrase}?” ({probability:.2f})"
    shown = f"was {'' if clear else 'vaguely '}shown {found.words}"
    return f"I asked M_rel{asked}, and {shown}{_gate(part)}", found.boxes[0]


def _saw(explanation: Explanation, part: Named, of: str) -> str:
    """Return what a callee replied about the region looked at."""
    if part.callee == RESIDUAL:
        return f"I took in more of {of} by myself (Δ){_gate(part)}"
    call = call_of(explanation, part.callee, part.step)
    names = list(call.reply.chances.items()) if call is not None else []
    if not names:
        return f"I asked M_{part.callee} about {of}{_gate(part)}"
    sure = [item for item in names[:_NAMED] if item[1] >= SURE]
    reply = ", ".join(f"{name} ({probability:.2f})" for name, probability in sure or names[:1])
    how = f"told me that {of} is" if sure else f"was not sure what {of} is, most of all"
    return f"M_{part.callee} {how} {reply}{_gate(part)}"


def _received(explanation: Explanation, part: Named) -> str:
    """Return what a callee replied about the whole scene."""
    call = call_of(explanation, part.callee, part.step)
    if part.callee == "cnt":
        if call is None or not call.reply.chances:
            return f"I had M_cnt count{_gate(part)}"
        count, probability = next(iter(call.reply.chances.items()))
        return f"I had M_cnt count, which found {count} ({probability:.2f}){_gate(part)}"
    listened = explanation.steps[part.step - 1].listened
    words = sorted(zip(listened, explanation.caption, strict=False), key=lambda item: -item[0])
    most = [item for item in words[:_NAMED] if item[0] >= LISTENED] or words[:1]
    named_words = ", ".join(f"“{word}” ({share:.2f})" for share, word in most)
    caption = " ".join(explanation.caption)
    listened_to = f" and listened to {named_words}" if named_words else ""
    return f"I had M_cap describe the scene, “{caption}”,{listened_to}{_gate(part)}"
