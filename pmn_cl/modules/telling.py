"""The execution of one sample in words: who asked whom what, and what came back.

For people at a terminal; pictures and pages are made of the trace itself.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from pmn_cl.modules.compositional import ATTEND, RESIDUAL
from pmn_cl.modules.relation import RelationQuery
from pmn_cl.modules.runtime.environment import Environment
from pmn_cl.modules.runtime.network import ModuleNetwork
from pmn_cl.modules.runtime.trace import Call, Trace
from pmn_cl.tasks.captions import words_to_text

Names = Mapping[str, list[str]]
_SHOWN = 3  # answers, attributes


@torch.no_grad()
def tell(
    network: ModuleNetwork, x: Mapping[str, Tensor], task: str, names: Names, *, depth: int = 0
) -> str:
    """Return the execution of a batch of one sample, line by line.

    ``depth`` says how far down calls are told: 0 for those of the task's own module.
    """
    network.eval()
    trace = Trace()
    outputs = network(x, task, trace=trace)
    env = Environment.of(x)
    lines = []
    if "question" in x:
        words = [names["question words"][word] for word in x["question"][0].tolist() if word]
        lines.append(f"question: {' '.join(words)}?")
    told = [call for call in trace.calls if call.depth <= depth and call.step > 0]
    for number, call in enumerate(sorted(told, key=lambda call: call.number), start=1):
        gate = "" if call.gate is None else f" ({float(call.gate[0]):.2f})"
        asked = f"{'  ' * call.depth}{number}. step {call.step}: M_{call.caller} asks "
        lines.append(f"{asked}{_title(call.callee)}{gate}{_said(call, network, env, names)}")
    if task in ("cnt", "vqa"):
        shown = names["answers" if task == "vqa" else "counts"]
        chances = outputs[0].sigmoid() if task == "vqa" else outputs[0].softmax(0)
        lines.append(f"answer: {_best(chances, shown)}")
    return "\n".join(lines)


def _title(callee: str) -> str:
    return callee if callee in (ATTEND, RESIDUAL) else f"M_{callee}"


def _said(call: Call, network: ModuleNetwork, env: Environment, names: Names) -> str:
    """Return what was asked and answered, as far as it can be said in words."""
    query, answer = call.query, call.output
    if isinstance(query, RelationQuery):
        relation = int(query.relation[0].argmax())
        directions = [f"{r} ({d})" for d in names["directions"] for r in names["relations"]]
        asked = f"{_box(query.box, env)}, {directions[relation]}"
        return f": {asked} → {_box(env.softmax(answer), env)}"
    if call.callee == ATTEND:
        return f" → {_box(env.softmax(answer), env)}"
    callee = network[call.caller].callees.get(call.callee)
    if callee is not None and call.callee in ("obj", "att") and answer.dim() == 2:
        return f" → {_named(call.callee, callee.outputs(answer, env)[0], names)}"
    if callee is not None and call.callee == "cnt":
        outputs = callee.outputs(answer, env)[0].softmax(0)
        return f" → {_best(outputs, names['counts'])}"
    if call.callee == "cap":
        words = answer[0].argmax(1).cpu().numpy()
        return f' → "{words_to_text(words, names["caption words"])}"'
    return ""


def _named(task: str, scores: Tensor, names: Names) -> str:
    if task == "obj":
        return _best(scores.softmax(0), names["objects"])
    return _best(scores.sigmoid(), names["attributes"])


def _box(attention: Tensor, env: Environment) -> str:
    """Return the most attended box, where it is, and how much of the attention it has."""
    box = int(attention[0].argmax())
    x1, y1, x2, y2 = env.boxes[0, box].tolist()
    where = f"({(x1 + x2) / 2:.2f}, {(y1 + y2) / 2:.2f})"
    return f"box {box} at {where} {float(attention[0, box]):.2f}"


def _best(chances: Tensor, shown: list[str]) -> str:
    top = chances.topk(min(_SHOWN, len(shown)))
    return ", ".join(
        f"{shown[i]} {chance:.2f}" for chance, i in zip(top.values, top.indices, strict=True)
    )
