"""From the trace of a batch of questions to plain data: queries and replies, in words.

The words are the network's own: a region is what M_obj and M_att take it for, not the truth.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from pmn_cl.errors import UserError
from pmn_cl.explaining.records.explanation import CAPTION, RELATION, CallRecord, Message, Step
from pmn_cl.modules.answer import AnswerModule
from pmn_cl.modules.caption import END, is_over
from pmn_cl.modules.compositional import ATTEND, RESIDUAL
from pmn_cl.modules.count import CountModule
from pmn_cl.modules.relation import RelationQuery
from pmn_cl.modules.runtime.environment import Environment
from pmn_cl.modules.runtime.network import ModuleNetwork
from pmn_cl.modules.runtime.trace import Call, Trace
from pmn_cl.modules.task_module import TaskModule
from pmn_cl.modules.terminal import ObjectModule, TerminalModule
from pmn_cl.tasks.answers import AnswerTask
from pmn_cl.tasks.base import LossTerms

TASK = "vqa"
_MAPS = (ATTEND, RELATION)
_BACKGROUND = "background"
_NAMED = 5  # names of each reply, runners-up

Row = Callable[[int], Message]  # of a sample of the batch


class Tracer:
    """Lets a network answer questions, and records how it did."""

    def __init__(
        self,
        network: ModuleNetwork,
        names: Mapping[str, list[str]],
        phrases: Mapping[str, str] | None = None,
        terms: LossTerms | None = None,  # that M_vqa learned by
    ) -> None:
        module = network[TASK]
        if not isinstance(module, AnswerModule):
            raise UserError(
                f"{type(module).__name__} answers questions in a way of its own, which cannot be "
                "explained; expected M_vqa or a module derived from it"
            )
        self.network, self.module, self.names = network, module, names
        self._terms = terms or LossTerms()
        self._modules = _reachable(module)
        phrase_of = phrases or {}
        relations = [phrase_of.get(name, name) for name in names.get("relations", [])]
        # "subject" is sought: what is left of it; "object": what it is left of.
        self._relations = [
            f"what is {name} it" if direction == "subject" else f"what it is {name}"
            for direction in names.get("directions", [])
            for name in relations
        ]

    @torch.no_grad()
    def __call__(self, x: Mapping[str, Tensor]) -> list[dict[str, Any]]:
        """Return what an explanation holds of the network, for each question of a batch."""
        self.network.eval()
        trace = Trace()
        env = self.network.environment(x, TASK, trace=trace)
        module = self.module
        outputs = module.outputs(module(module.own_query(env), env), env)
        regions = self._regions(env)
        captions = self._captions(trace)
        steps = self._steps(trace, env, captions, regions)
        calls = self._calls(trace, env, captions, regions)
        probabilities = AnswerTask().probabilities(outputs, self._terms)
        top = probabilities.topk(min(1 + _NAMED, outputs.shape[1]))
        boxes = _present(env.boxes, env)
        answers = self.names["answers"]
        traced = []
        for row, (values, numbers) in enumerate(
            zip(top.values.tolist(), top.indices.tolist(), strict=True)
        ):
            best = [(answers[n], value) for n, value in zip(numbers, values, strict=True)]
            traced.append(
                {
                    "answer": best[0][0],
                    "confidence": best[0][1],
                    "runners_up": best[1:],
                    "boxes": [tuple(box) for box in boxes[row]],
                    "regions": regions[row],
                    "attended": steps[row][-1].attended,
                    "steps": steps[row],
                    "calls": calls[row],
                    "caption": captions[row],
                }
            )
        return traced

    # What the network believes.

    def _regions(self, env: Environment) -> list[list[str]]:
        """Return what M_obj and M_att, as this network has them, take each region for."""
        objects = self._labels("obj", env)
        colours = self._labels("att", env)
        named = []
        for row, there in enumerate(env.mask.sum(1).tolist()):
            nouns = objects[row] if objects else [""] * there
            looks = colours[row] if colours else [""] * there
            named.append(
                [
                    noun if noun == _BACKGROUND else " ".join(filter(None, (look, noun)))
                    for noun, look in zip(nouns, looks, strict=True)
                ]
            )
        return named

    def _labels(self, task: str, env: Environment) -> list[list[str]]:
        """Return the likeliest label of each region; of attributes a colour, where there is one."""
        module = self._modules.get(task)
        if module is None and task in self.network:  # learned, if not called
            module = self.network[task]
        if not isinstance(module, TerminalModule):
            return []
        seen = Environment(env.regions, env.boxes, env.mask)
        labels = self.names[module.labels]
        scores = module.outputs(module(seen.regions, seen), seen)
        if task == "att" and "colour" in self.names:
            kept = [label in self.names["colour"] for label in labels]
            scores = scores.masked_fill(~torch.tensor(kept, device=scores.device), -torch.inf)
        return [[labels[n] for n in row] for row in _present(scores.argmax(2), env)]

    def _captions(self, trace: Trace) -> list[list[str]]:
        """Return the caption that M_vqa received from M_cap, up to its end."""
        received = trace.of(TASK, CAPTION)
        if not received:
            size = len(trace.of(TASK, ATTEND)[0].output)
            return [[] for _ in range(size)]
        words = self.names["caption words"]
        found = []
        sentences = received[0].output
        chosen = sentences.argmax(2)
        over = (chosen == END) | (sentences.sum(2) == 0)  # its end, or padding after it
        for row, ends in zip(chosen.tolist(), over.tolist(), strict=True):
            length = ends.index(True) if True in ends else len(row)
            found.append([words[word] for word in row[:length]])
        return found

    # Steps.

    def _steps(
        self, trace: Trace, env: Environment, captions: list[list[str]], regions: list[list[str]]
    ) -> list[list[Step]]:
        """Return M_vqa's steps, for each sample."""
        found: list[list[Step]] = [[] for _ in range(len(env))]
        own = [call for call in trace.calls if call.depth == 0 and call.step > 0]
        for number in sorted({call.step for call in own}):
            calls = {call.callee: call for call in own if call.step == number}
            gates = {k: _floats(calls[k].gate) for k in self.module.call_list if k in calls}
            maps = {k: env.softmax(calls[k].output) for k in _MAPS if k in calls}
            looked = attended(calls, env)
            shown = {k: _present(m, env) for k, m in maps.items()}
            shares = _present(looked, env)
            listened = self._listened(calls, env)
            replies = {k: self._reply(call, env, captions, regions) for k, call in calls.items()}
            for row, steps in enumerate(found):
                steps.append(
                    Step.model_construct(
                        gates={
                            k: gates[k][row] if k in gates else 0.0 for k in self.module.call_list
                        },
                        maps={k: m[row] for k, m in shown.items()},
                        attended=shares[row],
                        pad={k: replies[k](row).words for k in gates if gates[k][row] > 0},
                        listened=listened[row][: len(captions[row])] if listened else [],
                    )
                )
        return found

    def _listened(self, calls: Mapping[str, Call], env: Environment) -> list[list[float]]:
        """Return the attention on the words of the caption, R_cap→vqa's."""
        if CAPTION not in calls:
            return []
        sentence, question = calls[CAPTION].output, calls[ATTEND].query
        words = sentence @ self.module.words.weight
        logits = self.module.listen(question, words, env).masked_fill(is_over(sentence), -torch.inf)
        shares: list[list[float]] = logits.softmax(1).tolist()
        return shares

    # Calls.

    def _calls(
        self, trace: Trace, env: Environment, captions: list[list[str]], regions: list[list[str]]
    ) -> list[list[CallRecord]]:
        """Return all calls in their order, for each sample."""
        found: list[list[CallRecord]] = [[] for _ in range(len(env))]
        for call in sorted(trace.calls, key=lambda call: call.number):
            gates = _floats(call.gate) if call.gate is not None else None
            asked = self._query(call, env, regions)
            reply = self._reply(call, env, captions, regions)
            for row, calls in enumerate(found):
                shut = gates is not None and gates[row] == 0
                ended = call.caller == CAPTION and call.step > len(captions[row]) + 1
                if shut or ended:  # others in the batch called it
                    continue
                calls.append(
                    CallRecord.model_construct(
                        number=len(calls) + 1,
                        depth=call.depth,
                        caller=call.caller,
                        callee=call.callee,
                        step=call.step,
                        gate=gates[row] if gates is not None else None,
                        query=asked(row),
                        reply=reply(row),
                    )
                )
        return found

    def _query(self, call: Call, env: Environment, regions: list[list[str]]) -> Row:
        """Return the query."""
        if isinstance(call.query, RelationQuery):
            boxes = _present(call.query.box, env)
            names = _likeliest(call.query.relation, self._relations)
            return lambda row: Message.model_construct(
                words=f"{next(iter(names[row]))}: {_top(boxes[row], regions[row])}",
                boxes=boxes[row],
                chances=names[row],
            )
        if isinstance(call.query, Tensor) and call.query.dim() == 3:
            return _same("all regions")
        if call.callee == ATTEND:
            return _same("where to look")
        if call.callee == "cnt":
            return _same("the question")
        if call.callee == CAPTION:
            return _same("the scene")
        return _same("the region looked at")

    def _reply(
        self, call: Call, env: Environment, captions: list[list[str]], regions: list[list[str]]
    ) -> Row:
        """Return the reply, as far as it can be put into words."""
        answer = call.output
        if call.callee in _MAPS:
            # M_cnt counts each region for itself; all others share their attention out.
            counted = call.callee == ATTEND and call.caller == "cnt"
            boxes = _present(answer.sigmoid() if counted else env.softmax(answer), env)
            return lambda row: Message.model_construct(
                words=_top(boxes[row], regions[row]), boxes=boxes[row], chances={}
            )
        if call.callee == CAPTION:
            return lambda row: Message.model_construct(
                words=" ".join(captions[row]), boxes=[], chances={}
            )
        callee = self._modules.get(call.callee)
        if isinstance(callee, TerminalModule) and answer.dim() == 2:
            scores = callee.outputs(answer, env)
            single = isinstance(callee, ObjectModule)
            values = scores.softmax(1) if single else scores.sigmoid()
            return _named(_likeliest(values, self.names[callee.labels]))
        if isinstance(callee, CountModule):
            values = callee.outputs(answer, env).softmax(1)
            return _named(_likeliest(values, self.names["counts"]))
        if call.callee == RESIDUAL or answer.dim() == 2:
            return _same("")
        return _same("what each of them shows")


def attended(calls: Mapping[str, Call], env: Environment) -> Tensor:
    """Return where M_vqa looked at a step (B, N): the maps by their gates, shared out to 1."""
    maps = [(calls[k].gate, env.softmax(calls[k].output)) for k in _MAPS if k in calls]
    looked = torch.stack([gate[:, None] * m for gate, m in maps if gate is not None]).sum(0)
    return looked / looked.sum(1, keepdim=True).clamp(min=torch.finfo(looked.dtype).tiny)


def _reachable(module: TaskModule) -> dict[str, TaskModule]:
    """Return the modules that a module calls, and those that they call; the nearest of a name."""
    found = dict(module.callees)
    for callee in module.callees.values():
        found = {**_reachable(callee), **found}
    return found


def _same(words: str) -> Row:
    message = Message.model_construct(words=words, boxes=[], chances={})
    return lambda row: message


def _named(names: list[dict[str, float]]) -> Row:
    return lambda row: Message.model_construct(
        words=", ".join(f"{name} {value:.2f}" for name, value in list(names[row].items())[:3]),
        boxes=[],
        chances=names[row],
    )


def _floats(values: Tensor | None) -> list[float]:
    assert values is not None  # M_vqa has a gate for each of its callees
    found: list[float] = values.tolist()
    return found


def _present(values: Tensor, env: Environment) -> list[list[Any]]:
    """Return what there is of each region (B, N, …), without padding."""
    return [
        [value for value, there in zip(row, mask, strict=True) if there]
        for row, mask in zip(values.tolist(), env.mask.tolist(), strict=True)
    ]


def _top(shares: list[float], regions: list[str]) -> str:
    top = max(range(len(shares)), key=lambda region: shares[region])
    return f"{regions[top]} (box {top}) {shares[top]:.2f}".strip()


def _likeliest(probabilities: Tensor, names: list[str]) -> list[dict[str, float]]:
    """Return the likeliest names of each sample, the likeliest first."""
    top = probabilities.topk(min(_NAMED, probabilities.shape[1]))
    return [
        {names[n]: value for n, value in zip(numbers, values, strict=True)}
        for numbers, values in zip(top.indices.tolist(), top.values.tolist(), strict=True)
    ]
