"""Trunk and heads: shapes, padding, a hand calculation, and what a task must say of itself."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from baselines.common.heads import HEADS, AnswerHead, CountHead, SentenceHead, head_for
from baselines.common.trunk import HeadInput, NetworkPlan, Trunk, observed, reader_name
from baselines.hard_sharing import SharedNetwork
from pmn_cl.errors import UserError
from pmn_cl.modules.caption import END, LONGEST
from pmn_cl.modules.runtime.environment import Environment
from pmn_cl.modules.sizes import Departures, Sizes, WorldShape
from pmn_cl.tasks.answers import AnswerTask
from pmn_cl.tasks.attributes import AttributeTask
from pmn_cl.tasks.base import FORMS, Task
from pmn_cl.tasks.captions import CaptionTask
from pmn_cl.tasks.counts import CountTask
from pmn_cl.tasks.objects import ObjectTask
from pmn_cl.tasks.relations import RelationTask

NAMES = {
    "objects": ["none", "cat", "dog"],
    "attributes": ["red", "big"],
    "relations": ["left of", "above", "near"],
    "directions": ["to", "from"],
    "caption words": ["", "<s>", "</s>", "a", "cat", "dog"],
    "question words": ["", "how", "many", "is"],
    "counts": [str(n) for n in range(13)],
    "answers": ["yes", "no", "cat", "dog"],
}
B, N, D = 3, 6, 5
PLAN = NetworkPlan(
    WorldShape(D, NAMES),
    Sizes(
        hidden=8,
        knowledge=9,
        attention=7,
        relation=10,
        relation_attention=6,
        caption=4,
        word=3,
        terminal=4,
    ),
    16,
    7,
    Departures(count_boxes=15, question_answers=True, singulars=True),
)
KINDS: dict[str, Task] = {
    task.name: task
    for task in (
        *(ObjectTask(), AttributeTask(), RelationTask()),
        *(CaptionTask(), CountTask(), AnswerTask()),
    )
}


def batch(n: int = N, real: int = 4) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(0)
    corner = torch.rand(B, n, 2, generator=generator) * 0.5
    mask = torch.zeros(B, n, dtype=torch.bool)
    mask[:, :real] = True
    return {
        "regions": torch.randn(B, n, D, generator=generator),
        "boxes": torch.cat([corner, corner + 0.2], dim=2),
        "mask": mask,
        "question": torch.tensor([[1, 2, 0], [1, 3, 2], [2, 0, 0]]),
        "box": torch.tensor([0, 1, 2]),
        "relation": torch.tensor([0, 2, 1]),
        "direction": torch.tensor([0, 1, 1]),
    }


def network() -> SharedNetwork:
    torch.manual_seed(1)
    built = SharedNetwork(PLAN)
    for task in KINDS.values():
        built.tasks[task.name] = task
        built.grow(task)
    return built.eval()


SHAPES = {
    "obj": (B, N, 3),
    "att": (B, N, 2),
    "rel": (B, N),
    "cap": (B, LONGEST, 6),
    "cnt": (B, 13),
    "vqa": (B, 4),
}


@pytest.mark.parametrize("task", KINDS)
def test_outputs_have_the_shape_that_the_tasks_loss_takes(task: str) -> None:
    assert network()(batch(), task).shape == SHAPES[task]


@pytest.mark.parametrize("task", KINDS)
def test_padding_changes_nothing(task: str) -> None:
    built, x = network(), batch()
    other = {name: value.clone() for name, value in x.items()}
    other["regions"][:, 4:] = 1e3
    other["boxes"][:, 4:] = 0.7
    few = {n: v[:, :4] if n in ("regions", "boxes", "mask") else v for n, v in x.items()}
    outputs, changed, short = (built(given, task) for given in (x, other, few))
    real = slice(4) if task in ("obj", "att", "rel") else slice(None)
    torch.testing.assert_close(outputs[:, real], changed[:, real])
    torch.testing.assert_close(outputs[:, real], short[:, real])
    if task == "rel":
        assert (outputs.softmax(1)[:, 4:] == 0).all()


def test_tasks_that_ask_alike_share_a_reader_and_others_have_their_own() -> None:
    readers = set(network().trunk.readers)
    assert readers == {"start of obj", "start of att", "start of cap", "relation", "question"}
    assert reader_name(KINDS["cnt"]) == reader_name(KINDS["vqa"])


def test_the_trunk_by_hand() -> None:
    torch.manual_seed(0)
    trunk = Trunk(PLAN)
    trunk.add(KINDS["rel"])
    env = Environment.of(batch())
    x0, x1 = env.boxes[0, 0, 0], env.boxes[0, 0, 2]
    assert observed(env)[0, 0, D] == x0 + x1 - 1  # the centre, from -1 to 1
    h = torch.relu(observed(env) @ trunk.regions.first.weight.T + trunk.regions.first.bias)
    h = torch.relu(h @ trunk.regions.second.weight.T + trunk.regions.second.bias)
    seen = trunk(env, KINDS["rel"])
    torch.testing.assert_close(seen.regions, h)
    # The second sample: relation 2 in direction 1 of three relations, box 1.
    vector = trunk.readers["relation"].relation.weight[1 * 3 + 2]
    torch.testing.assert_close(seen.query[1], vector * h[1, 1])
    weights = seen.attention[1, :4].softmax(0)  # two regions are padding
    found = (weights[:, None] * h[1, :4]).sum(0)
    both = torch.cat([found, seen.query[1], found * seen.query[1]])
    torch.testing.assert_close(seen.fused[1], trunk.fusion.join(both).relu())


def seen_of(env: Environment) -> HeadInput:
    generator = torch.Generator().manual_seed(2)
    regions = torch.randn(B, N, PLAN.width, generator=generator)
    vector = torch.randn(B, PLAN.width, generator=generator)
    return HeadInput(regions, vector, torch.zeros(B, N), vector)


@pytest.mark.parametrize("which", [0, 1])
def test_the_count_starts_as_the_counters_own(which: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before it learns, a sure map of k disjoint boxes makes k the likeliest count.

    The map is what the query is about, or what that leads to: whichever is chosen.
    """
    head = CountHead(PLAN, 13)
    with torch.no_grad():
        for part in (head.choose.weight, head.choose.bias, head.counted.bias):
            part.zero_()
        head.choose.bias[which] = 50.0
    x = batch()
    places = torch.arange(N) / 10
    x["boxes"] = torch.stack([places, places, places + 0.05, places + 0.05], 1).expand(B, -1, -1)
    env = Environment.of(x)
    sure = torch.full((B, N), -50.0)
    sure[0, :1] = sure[1, :3] = sure[2, :4] = 50.0
    sure[:, 4:] = 50.0  # padding
    maps = [sure, -sure] if which == 0 else [-sure, sure]
    monkeypatch.setattr(head.point, "forward", lambda key, data, env: maps[1])
    outputs = head(seen_of(env)._replace(attention=maps[0]), env)
    assert outputs.argmax(1).tolist() == [1, 3, 4]


def test_a_generated_sentence_is_one_that_the_teacher_would_follow() -> None:
    """Greedy words, given back as the teacher's, get the same scores at every step."""
    torch.manual_seed(3)
    head = SentenceHead(PLAN, 6)
    with torch.no_grad():
        head.speak.bias[END] = 0.3  # so that some end early
    env = Environment.of(batch())
    seen = seen_of(env)
    generated = head(seen, env)
    words = generated.argmax(2)
    followed = head(seen, env, {"words": words})
    for row in range(B):
        ends = (words[row] == END).nonzero()
        length = int(ends[0]) + 1 if len(ends) else LONGEST
        torch.testing.assert_close(generated[row, :length], followed[row, :length])
        assert (generated[row, length:] == 0).all()


def test_the_question_alone_has_a_say_in_answers_where_it_should() -> None:
    torch.manual_seed(4)
    env = Environment.of(batch())
    seen = seen_of(env)._replace(query=torch.randn(B, PLAN.width))
    head = AnswerHead(PLAN, 4)
    assert head.of_words is not None
    thought = torch.relu(seen.fused @ head.think.weight.T + head.think.bias)
    fused = thought @ head.answer.weight.T + head.answer.bias
    alone = seen.query @ head.of_words.weight.T + head.of_words.bias
    torch.testing.assert_close(head(seen, env), fused + alone)
    assert AnswerHead(PLAN._replace(departures=Departures()), 4).of_words is None


def test_every_form_has_a_head() -> None:
    assert set(HEADS) == set(FORMS)
    assert {task.form for task in KINDS.values()} == set(FORMS)


def test_a_task_without_a_form_is_refused_with_the_forms_there_are() -> None:
    class Formless(CountTask):
        name = "formless"
        form = ""

    with pytest.raises(UserError, match=r"'formless' does not say its `form`: .* class, labels"):
        head_for(Formless(), PLAN)


def test_a_query_that_nobody_can_read_is_refused() -> None:
    class Odd(CountTask):
        name, query = "odd", ("question", "colour")

    with pytest.raises(UserError, match="'odd' asks with question, colour"):
        Trunk(PLAN).add(Odd())


def test_a_batch_without_a_task_label_is_refused() -> None:
    with pytest.raises(UserError, match="no task label"):
        network()(batch())


def test_a_task_not_learned_is_refused() -> None:
    with pytest.raises(UserError, match="'poetry' was not learned; learned: obj, att"):
        network()(batch(), "poetry")


def test_gradient_reaches_the_trunk_from_every_head() -> None:
    built = network()
    x: dict[str, Any] = batch()
    for task in KINDS:
        built.zero_grad()
        teacher = {"words": torch.full((B, LONGEST), 3)} if task == "cap" else None
        built(x, task, teacher=teacher)[:, :3].sum().backward()
        grad = built.trunk.regions.first.weight.grad
        assert grad is not None and bool(grad.abs().sum() > 0), task
