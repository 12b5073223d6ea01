"""Tasks: scores and losses against hand calculations, constants against brute force."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from pmn_cl import registry
from pmn_cl.data.loader import Batches, Scenes
from pmn_cl.data.samples import Samples
from pmn_cl.data.store import Store
from pmn_cl.tasks.answers import AnswerTask
from pmn_cl.tasks.attributes import AttributeTask
from pmn_cl.tasks.base import LossTerms, Task
from pmn_cl.tasks.captions import CaptionTask, words_to_text
from pmn_cl.tasks.counts import CountTask
from pmn_cl.tasks.objects import ObjectTask
from pmn_cl.tasks.relations import OUT_OF_REACH, RelationTask

ALL: list[Task] = [registry.load(reference)() for reference in registry.TASKS.values()]


def test_levels_and_call_lists_are_the_papers() -> None:
    """Section 3.3: L_cap, L_rel = [obj, att, …], L_vqa = [rel, obj, …]; M_cnt2 of Table 2."""
    found = {task.name: (task.level, set(task.calls)) for task in ALL}
    assert found == {
        "obj": (0, set()),
        "att": (0, set()),
        "rel": (1, {"obj", "att"}),
        "cap": (1, {"obj", "att"}),
        "cnt": (2, {"rel", "obj", "att"}),
        "vqa": (3, {"rel", "obj", "att", "cnt", "cap"}),
    }


def test_object_scores_count_only_regions_asked_about() -> None:
    predictions = np.array([[[3, 1, 0, 2, 4], [1, 3, 0, 2, 4], [9, 8, 7, 6, 5]]])
    columns = {"label": np.array([[3, 3, 3]]), "asked": np.array([[True, True, False]])}
    expected = {"top1": 0.5, "top5": 1.0, "top1_objects": 0.5}
    assert ObjectTask().score(predictions, columns, {}) == expected


def test_object_scores_without_background() -> None:
    predictions = np.array([[[0, 1, 2, 3, 4], [1, 0, 2, 3, 4], [0, 1, 2, 3, 4]]])
    columns = {"label": np.array([[0, 1, 2]]), "asked": np.ones((1, 3), dtype=bool)}
    scores = ObjectTask().score(predictions, columns, {})
    assert scores["top1"] == pytest.approx(2 / 3)
    assert scores["top1_objects"] == 0.5


def test_any_box_that_fits_is_right_and_the_drawn_one_counts_apart() -> None:
    columns = {
        "target": np.array([2, 0, 1, 1]),
        "satisfying": np.array([[0, 1, 1], [1, 0, 0], [0, 1, 0], [1, 1, 0]], dtype=bool),
        "direction": np.array([0, 0, 1, 1]),
    }
    scores = RelationTask().score(
        np.array([1, 0, 1, 2]), columns, {"directions": ["object", "subject"]}
    )
    assert scores == {"accuracy": 0.75, "drawn_box": 0.5, "object": 1.0, "subject": 0.5}


def test_count_scores() -> None:
    columns = {"count": np.array([0, 3, 5, 5]), "kind": np.array([0, 0, 0, 1])}
    scores = CountTask().score(
        np.array([0, 2, 5, 9]), columns, {"cnt kinds": ["plain", "relational"]}
    )
    assert scores["accuracy"] == 0.5
    assert scores["within_one"] == 0.75
    assert scores["rmse"] == pytest.approx(math.sqrt((0 + 1 + 0 + 16) / 4))
    assert scores["plain"] == pytest.approx(2 / 3)
    assert scores["relational"] == 0


def test_answer_scores_are_the_soft_scores_of_the_answers_given() -> None:
    columns = {
        "answers": np.array([[4, 7], [4, 0], [2, 0]]),
        "scores": np.array([[0.6, 0.3], [1.0, 0.0], [1.0, 0.0]]),
        "kind": np.array([0, 0, 1]),
        "hops": np.array([1, 2, 2]),
    }
    names = {"vqa kinds": ["yes/no", "number", "other"]}
    scores = AnswerTask().score(np.array([7, 4, 5]), columns, names)
    by_type = {"yes/no": 0.65, "number": 0.0}
    by_hops = {"one hop": 0.3, "two hops": 0.5}
    assert scores == pytest.approx({"accuracy": 1.3 / 3, **by_type, **by_hops})


FAMILIES = {"families": ["exist", "count", "same"]}


def test_scores_by_family_have_names_of_their_own() -> None:
    answers = {
        "answers": np.array([[4], [4], [2], [1]]),
        "scores": np.ones((4, 1)),
        "family": np.array([0, 0, 1, 0]),
    }
    scores = AnswerTask().score(np.array([4, 5, 2, 7]), answers, FAMILIES)
    assert scores == pytest.approx({"accuracy": 0.5, "family exist": 1 / 3, "family count": 1.0})
    assert AnswerTask().family_scores(scores) == pytest.approx({"exist": 1 / 3, "count": 1.0})

    counts = {"count": np.array([0, 3, 5]), "family": np.array([1, 1, 2])}
    found = CountTask().score(np.array([0, 2, 5]), counts, FAMILIES)
    assert (found["family count"], found["family same"]) == (0.5, 1.0)

    related = {
        "target": np.array([0, 1]),
        "satisfying": np.array([[True, False], [False, True]]),
        "relation": np.array([1, 0]),
    }
    names = {"relations": ["left of", "nearest", "above"]}
    found = RelationTask().score(np.array([0, 0]), related, names)
    assert (found["relation left of"], found["relation nearest"]) == (0.0, 1.0)
    assert "relation above" not in found  # nothing asked
    assert RelationTask().family_scores(found) == {"left of": 0.0, "nearest": 1.0}


def test_worlds_without_families_have_no_such_scores() -> None:
    columns = {"answers": np.array([[1]]), "scores": np.ones((1, 1))}
    assert AnswerTask().score(np.array([1]), columns, {}) == {"accuracy": 1.0}
    assert AnswerTask().score(np.array([1]), columns, FAMILIES) == {"accuracy": 1.0}
    assert ObjectTask().family_scores({"top1": 0.5}) == {}
    assert AnswerTask().family_floors(columns, FAMILIES) == {}


def answered(family: list[int], answer: list[int]) -> dict[str, np.ndarray]:
    """Questions of these families, each with one right answer."""
    columns = {"family": np.array(family), "answers": np.array(answer)[:, None]}
    columns["scores"] = np.ones((len(family), 1))
    return {**columns, **dict.fromkeys(AnswerTask.target[2:], np.zeros(len(family)))}


def test_the_floor_of_a_family_is_its_own_best_constant() -> None:
    columns = answered([0, 0, 0, 0, 1, 1], [7, 8, 8, 8, 3, 2])
    # exist: 8, right in 3 of 4; count: either, right in 1 of 2; nobody asks "same".
    assert AnswerTask().family_floors(columns, FAMILIES) == {"exist": 0.75, "count": 0.5}


def test_counts_that_are_not_known_are_no_part_of_a_family() -> None:
    columns = {"count": np.array([-1, -1, 4, -1]), "family": np.array([1, 1, 1, 2])}
    columns |= dict.fromkeys(CountTask.target[1:], np.zeros(4))
    families = CountTask().families(columns, FAMILIES)
    assert {name: some.tolist() for name, some in families.items()} == {
        "count": [False, False, True, False]
    }
    assert CountTask().family_floors(columns, FAMILIES) == {"count": 1.0}


def test_no_constant_serves_a_family_better_and_yes_no_is_half(digits: Store) -> None:
    task = AnswerTask()
    columns = Samples.whole(digits, "train", task).columns
    floors = task.family_floors(columns, digits.names)
    assert set(floors) == set(digits.names["families"])
    for name in ("exist", "verify", "same", "more", "exist_related"):
        assert floors[name] == pytest.approx(0.5, abs=0.1)  # of some 180 questions
    right, family = columns["answers"][:, 0], columns["family"]
    for number, name in enumerate(digits.names["families"]):
        shares = [
            np.mean(right[family == number] == a) for a in range(len(digits.names["answers"]))
        ]
        assert floors[name] == pytest.approx(max(shares))


def test_samples_without_kinds_are_scored_as_one() -> None:
    columns = {"count": np.array([1, 2]), "scene": np.array([0, 1])}
    scores = CountTask().score(np.array([1, 1]), columns, {})
    assert scores == pytest.approx({"accuracy": 0.5, "within_one": 1.0, "rmse": math.sqrt(0.5)})
    prior = CountTask().prior(columns, {"counts": ["0", "1", "2"]})
    assert prior == {"": [("1", 0.5), ("2", 0.5)]}


NOTHING = -math.inf


@pytest.mark.parametrize("padding", [NOTHING, OUT_OF_REACH])
def test_a_yes_or_no_for_every_box_by_hand(padding: float) -> None:
    """Of two boxes with logits 0 and 2, the second fits; the third is padding."""
    outputs = torch.tensor([[0.0, 2.0, padding]], requires_grad=True)
    y = {"target": torch.tensor([1]), "satisfying": torch.tensor([[False, True, False]])}
    task = RelationTask()
    one_of_them = math.log(1 + math.e**2) - 2
    each = (math.log(2) + math.log(1 + math.e**-2)) / 2
    assert task.loss(outputs, y).item() == pytest.approx(one_of_them)
    loss = task.training_loss(outputs, y, LossTerms(every_box=3.0))
    assert loss.item() == pytest.approx(one_of_them + 3 * each, rel=1e-6)
    loss.backward()
    assert outputs.grad is not None and outputs.grad.isfinite().all()
    assert outputs.grad[0, 2] == 0


def test_each_sample_weighs_the_same_however_many_boxes_it_has() -> None:
    outputs = torch.tensor([[1.0, NOTHING, NOTHING], [0.5, -1.0, 2.0]])
    y = {"target": torch.tensor([0, 2]), "satisfying": torch.tensor([[1, 0, 0], [1, 0, 1]]) > 0}
    terms, task = LossTerms(every_box=1.0), RelationTask()
    both = task.training_loss(outputs, y, terms)
    alone = [
        task.training_loss(outputs[[n]], {k: v[[n]] for k, v in y.items()}, terms) for n in range(2)
    ]
    assert both.item() == pytest.approx(sum(loss.item() for loss in alone) / 2)


def test_the_distance_of_counts_is_added_by_its_weight() -> None:
    # Torn between 0 and 1 when it is 2: 1.5 off, of which smooth L1 makes 1.
    outputs = torch.tensor([[0.0, 0.0, -30.0]])
    y = {"count": torch.tensor([2])}
    plain = CountTask().loss(outputs, y).item()
    found = CountTask().training_loss(outputs, y, LossTerms(count_distance=0.5)).item()
    assert found == pytest.approx(plain + 0.5 * 1.0, abs=1e-5)


def test_one_answer_is_cross_entropy_where_there_is_one() -> None:
    outputs = torch.randn(5, 7, generator=torch.Generator().manual_seed(0))
    answers = torch.tensor([3, 0, 6, 6, 1])
    y = {
        "answers": torch.stack([answers, torch.zeros(5, dtype=torch.long)], dim=1),
        "scores": torch.tensor([[1.0, 0.0]] * 5),
    }
    found = AnswerTask().training_loss(outputs, y, LossTerms(one_answer=True))
    torch.testing.assert_close(found, torch.nn.functional.cross_entropy(outputs, answers))


def test_several_answers_share_by_their_scores() -> None:
    """Logits ln 1, ln 2, ln 5: probabilities 1/8, 2/8 and 5/8."""
    outputs = torch.tensor([[1.0, 2.0, 5.0]]).log()
    y = {"answers": torch.tensor([[2, 0]]), "scores": torch.tensor([[0.9, 0.3]])}
    found = AnswerTask().training_loss(outputs, y, LossTerms(one_answer=True))
    assert found.item() == pytest.approx(-0.75 * math.log(5 / 8) - 0.25 * math.log(1 / 8))


@pytest.mark.parametrize("task", ALL, ids=lambda task: task.name)
def test_without_terms_a_task_learns_by_its_plain_loss(task: Task, digits: Store) -> None:
    samples = Samples.whole(digits, "val", task)
    _, y = Batches(samples, Scenes(digits, "val"))[np.arange(6)]
    regions, words = (6, 24), (6, 16)
    over = {"obj": (*regions, 11), "att": (*regions, 11), "rel": regions}
    over |= {"cap": (*words, 60), "cnt": (6, 13), "vqa": (6, 60)}
    outputs = torch.randn(over[task.name], generator=torch.Generator().manual_seed(0))
    plain = task.loss(outputs, y)
    assert torch.equal(task.training_loss(outputs, y, LossTerms()), plain)
    every = {"every_box": 1.0, "count_distance": 1.0, "soft_count": 1.0, "one_answer": True}
    changed = [
        name
        for name, value in every.items()
        if not torch.equal(task.training_loss(outputs, y, LossTerms(**{name: value})), plain)
    ]
    expected = {"rel": ["every_box"], "cnt": ["count_distance"], "vqa": ["one_answer"]}
    assert changed == expected.get(task.name, [])


def test_a_count_that_is_not_known_teaches_nothing() -> None:
    outputs = torch.tensor([[0.0, 1.0, 2.0], [5.0, 0.0, 1.0], [1.0, 1.0, 1.0]], requires_grad=True)
    loss = CountTask().loss(outputs, {"count": torch.tensor([2, -1, 0])})
    by_hand = [math.log(1 + math.e + math.e**2) - 2, math.log(3)]  # of the first and the last
    assert float(loss) == pytest.approx(sum(by_hand) / 2)
    loss.backward()
    assert outputs.grad is not None
    assert outputs.grad[1].tolist() == [0, 0, 0] and outputs.grad[0].any()


def test_a_batch_without_any_known_count_costs_nothing_and_can_be_learned_from() -> None:
    outputs = torch.randn(2, 3, requires_grad=True)
    loss = CountTask().loss(outputs, {"count": torch.tensor([-1, -1])})
    loss.backward()
    assert float(loss) == 0
    assert outputs.grad is not None and not outputs.grad.any()


def test_counts_that_are_not_known_are_no_part_of_what_is_common() -> None:
    columns = {"count": np.array([-1, -1, -1, 2, 2, 1]), "kind": np.array([1, 1, 1, 0, 0, 0])}
    columns["scene"] = np.arange(6)
    names = {"counts": ["0", "1", "2"], "cnt kinds": ["plain", "relational"]}
    assert CountTask().constant(columns, names) == 2
    prior = CountTask().prior(columns, names)
    assert prior == {"plain": [("2", pytest.approx(2 / 3)), ("1", pytest.approx(1 / 3))]}


def test_caption_scores_are_best_for_a_reference(digits: Store) -> None:
    samples = Samples.whole(digits, "test", CaptionTask())
    captions = samples.columns["captions"]
    right = CaptionTask().score(captions[:, 0], samples.columns, digits.names)
    shifted = CaptionTask().score(np.roll(captions[:, 0], 1, 0), samples.columns, digits.names)
    assert right["cider_d"] > 2 * shifted["cider_d"]


def test_words_end_at_the_end_mark_and_at_padding() -> None:
    words = ["", "<s>", "</s>", "a", "ring"]
    assert words_to_text(np.array([3, 4, 2, 3]), words) == "a ring"
    assert words_to_text(np.array([3, 0, 4]), words) == "a"


@pytest.mark.parametrize(
    "task", [t for t in ALL if t.name not in ("att", "cap")], ids=lambda task: task.name
)
def test_no_other_constant_serves_the_training_samples_better(task: Task, digits: Store) -> None:
    samples = Samples.whole(digits, "train", task)
    best = task.constant(samples.columns, digits.names)

    def score(answer: np.ndarray) -> float:
        everywhere = answer[None].repeat(len(samples), axis=0)
        return task.score(everywhere, samples.columns, digits.names)[task.metric]

    others = [np.full(best.shape, value) for value in range(24)]
    assert score(best) == max(map(score, [best, *others]))


def test_a_constant_attribute_score_earns_the_attributes_frequency(digits: Store) -> None:
    """With one score for all, the average precision of a class is its share of positives."""
    samples, task = Samples.whole(digits, "test", AttributeTask()), AttributeTask()
    everywhere = task.constant(samples.columns, digits.names)[None].repeat(len(samples), axis=0)
    found = task.score(everywhere, samples.columns, digits.names)["map"]
    truth = samples.columns["attributes"][samples.columns["asked"]]
    assert found == pytest.approx(truth.mean(axis=0).mean())


def test_priors_are_shares_of_answers(digits: Store) -> None:
    for task in ALL:
        for kind, answers in task.prior(
            Samples.whole(digits, "test", task).columns, digits.names
        ).items():
            shares = [share for _, share in answers]
            assert shares == sorted(shares, reverse=True), (task.name, kind)
            if task.name in ("obj", "cnt", "vqa"):  # exactly one right answer each
                assert sum(shares) == pytest.approx(1)


def output_shape(task: Task, store: Store, batch: int) -> tuple[int, ...]:
    """The shape of a model's outputs, from what a task and a store say."""
    regions = store.table("val", "scenes")["mask"].shape[1]
    steps = store.table("val", "cap")["words"].shape[1]
    over = len(store.names[task.outputs]) if task.outputs else regions
    inner = {"obj": (regions,), "att": (regions,), "cap": (steps,)}.get(task.name, ())
    return (batch, *inner, over)


@pytest.mark.parametrize("task", ALL, ids=lambda task: task.name)
def test_a_loaders_batch_is_all_that_loss_and_score_need(task: Task, digits: Store) -> None:
    samples = Samples.whole(digits, "val", task)
    _, y = Batches(samples, Scenes(digits, "val"))[np.arange(len(samples))]
    shape = output_shape(task, digits, len(samples))
    outputs = torch.randn(shape, generator=torch.Generator().manual_seed(0), requires_grad=True)
    loss = task.loss(outputs, y)
    loss.backward()
    assert loss.isfinite()
    assert outputs.grad is not None
    assert outputs.grad.abs().sum() > 0
    scores = task.score(task.decode(outputs.detach()), samples.columns, digits.names)
    assert 0 <= scores[task.metric] < 1


def test_losses_by_hand() -> None:
    log2, log4 = math.log(2), math.log(4)
    asked = torch.tensor([[True, False]])
    targets = {"label": torch.tensor([[1, 3]]), "asked": asked}
    assert float(ObjectTask().loss(torch.zeros(1, 2, 4), targets)) == pytest.approx(log4)
    targets = {"attributes": torch.tensor([[[True, False], [True, True]]]), "asked": asked}
    assert float(AttributeTask().loss(torch.zeros(1, 2, 2), targets)) == pytest.approx(log2)
    padded = torch.tensor([[0.0, 0.0, -torch.inf]])
    one = {"satisfying": torch.tensor([[False, True, False]])}
    assert float(RelationTask().loss(padded, one)) == pytest.approx(log2)
    # Two boxes fit: −½ ln ¾ − ½ ln ¼, as if each were drawn half of the time.
    uneven = torch.tensor([[math.log(3), 0.0, -torch.inf]], requires_grad=True)
    two = {"satisfying": torch.tensor([[True, True, False]])}
    loss = RelationTask().loss(uneven, two)
    assert float(loss) == pytest.approx(log4 - math.log(3) / 2)
    loss.backward()
    assert uneven.grad is not None
    assert uneven.grad[0].tolist() == pytest.approx([0.25, -0.25, 0.0])
    words = {"words": torch.tensor([[2, 1, 0, 0]])}
    outputs = torch.zeros(1, 4, 4)
    outputs[0, 2:, 3] = 100.0  # said after the end: no matter
    assert float(CaptionTask().loss(outputs, words)) == pytest.approx(log4)
    count = {"count": torch.tensor([3])}
    assert float(CountTask().loss(torch.zeros(1, 4), count)) == pytest.approx(log4)
    answer = {"answers": torch.tensor([[0, 2]] * 3), "scores": torch.tensor([[1.0, 0.3]] * 3)}
    assert float(AnswerTask().loss(torch.zeros(3, 5), answer)) == pytest.approx(5 * log2)


def test_answer_loss_pulls_towards_soft_scores() -> None:
    """The gradient of the binary cross-entropy is sigmoid(logit) minus the soft target."""
    logits = torch.zeros(1, 3, requires_grad=True)
    answer = {"answers": torch.tensor([[2]]), "scores": torch.tensor([[0.9]])}
    AnswerTask().loss(logits, answer).backward()
    assert logits.grad is not None
    assert logits.grad[0].tolist() == pytest.approx([0.5, 0.5, -0.4])


def test_outputs_are_decoded_to_predictions() -> None:
    logits = torch.tensor([[0.1, 0.9, 0.5]])
    for task in (RelationTask(), CountTask(), AnswerTask()):
        assert task.decode(logits).tolist() == [1]
    assert ObjectTask().decode(logits[None]).tolist() == [[[1, 2, 0]]]
    assert CaptionTask().decode(logits[None]).tolist() == [[1]]
    assert AttributeTask().decode(logits[None]).shape == (1, 1, 3)
