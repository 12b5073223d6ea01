"""An explanation made by hand: three regions, two steps, every callee with something to say."""

from __future__ import annotations

from typing import Any

from pmn_cl.explaining.records.explanation import CallRecord, Explanation, Message, Step

BOXES = [(0.0, 0.0, 0.2, 0.2), (0.5, 0.5, 0.7, 0.7), (0.5, 0.5, 0.7, 0.72)]  # the last two overlap
REGIONS = ["red seven", "green two", "green two"]


def call(number: int, callee: str, step: int, gate: float | None, **said: Any) -> CallRecord:
    given = {"depth": 0, "caller": "vqa", "query": Message(), "reply": Message(), **said}
    return CallRecord(number=number, callee=callee, step=step, gate=gate, **given)


def asking(step: int, gate: float, number: int = 2) -> CallRecord:
    return call(
        number,
        "rel",
        step,
        gate,
        query=Message(
            boxes=[0.9, 0.1, 0.0], chances={"what is left of it": 0.8, "what it is left of": 0.1}
        ),
        reply=Message(boxes=[0.1, 0.6, 0.3]),
    )


def relational(**changes: Any) -> Explanation:
    """M_rel finds the green two, M_att tells its colour; the second step adds nothing."""
    gates = {"Ω": 0.1, "rel": 0.9, "obj": 0.1, "att": 0.6, "Δ": 0.1, "cnt": 0.1, "cap": 0.1}
    maps = {"Ω": [1.0, 0.0, 0.0], "rel": [0.1, 0.6, 0.3]}
    first = Step(gates=gates, maps=maps, attended=[0.19, 0.54, 0.27], pad={"att": "green 0.95"})
    second = first.model_copy(update={"gates": {k: 0.9 * gate for k, gate in gates.items()}})
    second = second.model_copy(update={"gates": {**second.gates, "Ω": 0.19, "obj": 0.16}})
    usual: dict[str, Any] = {
        **{"run": "pmn-seed0-1", "strategy": "pmn", "split": "test", "scene": 3, "question_id": 31},
        "question": "what colour is the symbol left of the red seven?",
        **{"answer": "green", "confidence": 0.75, "runners_up": [("blue", 0.2), ("red", 0.05)]},
        **{"truth": "green", "right": True, "boxes": BOXES, "regions": REGIONS},
        **{"attended": [0.19, 0.54, 0.27], "steps": [first, second]},
        "calls": [
            call(1, "Ω", 1, 0.1, reply=Message(words="red seven (box 0) 1.00", boxes=maps["Ω"])),
            asking(1, 0.9),
            call(3, "obj", 1, None, depth=1, caller="rel", query=Message(words="all regions")),
            call(4, "att", 1, None, depth=1, caller="rel", query=Message(words="all regions")),
            call(
                5, "att", 1, 0.6, reply=Message(chances={"green": 0.95, "small": 0.7, "plain": 0.2})
            ),
            call(6, "cap", 1, 0.1, query=Message(words="the scene"), reply=Message(words="a ring")),
            call(7, "Ω", 2, 0.19),
            asking(2, 0.81, number=8),
            call(9, "att", 2, 0.54, reply=Message(chances={"green": 0.9})),
        ],
        "caption": ["a", "ring", "of", "symbols"],
    }
    return Explanation.model_validate({**usual, **changes})


def baseline(**changes: Any) -> Explanation:
    """Ω and Δ alone: it looks at one thing, then at another."""
    gates = {"Ω": 1.0, "Δ": 1.0}
    looks = ([0.8, 0.1, 0.1], [0.2, 0.5, 0.3])
    steps = [Step(gates=gates, maps={"Ω": m}, attended=m, pad={}) for m in looks]
    return relational(
        **{
            **{"run": "independent-seed0-2", "strategy": "independent", "steps": steps},
            **{"attended": looks[1], "calls": [call(1, "Ω", 1, 1.0), call(2, "Δ", 1, 1.0)]},
            **{"answer": "red", "confidence": 0.4, "right": False, "caption": []},
            **{"runners_up": [("green", 0.3)], **changes},
        }
    )
