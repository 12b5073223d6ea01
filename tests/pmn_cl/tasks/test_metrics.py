"""Task metrics against scikit-learn, pycocoevalcap and calculations by hand."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pmn_cl.tasks import metrics
from pmn_cl.tasks.metrics import cider_d, mean_average_precision, vqa_accuracy
from pmn_cl.tasks.text import tokenize_caption

quick = settings(deadline=None, max_examples=60)

# --- VQA ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("matches", "expected"), [(0, 0.0), (1, 0.3), (2, 0.6), (3, 0.9), (4, 1.0), (10, 1.0)]
)
def test_vqa_accuracy_by_number_of_matches(matches: int, expected: float) -> None:
    # 2 matches: two annotators see one other match (1/3), eight see two (2/3): 6/10.
    answers = ["red"] * matches + [f"other {i}" for i in range(10 - matches)]
    assert vqa_accuracy("red", answers) == pytest.approx(expected, abs=1e-12)


def test_official_vqa_normalises_only_where_answers_differ() -> None:
    assert vqa_accuracy("Yes", ["yes"] * 10) == 0
    assert vqa_accuracy("Yes", ["yes"] * 9 + ["no"]) == 1
    assert vqa_accuracy(" yes\n", ["yes"] * 10) == 1  # white space is stripped all the same
    assert vqa_accuracy("Yes", ["yes"] * 9 + ["yes "]) == 0  # these agree once stripped


def test_official_vqa_comma_oddity() -> None:
    # "1,000" makes the slash vanish as well, so "red/blue" no longer meets "red blue".
    truths = ["1000 redblue"] * 9 + ["no"]
    assert vqa_accuracy("1,000 red/blue", truths) == 1
    assert vqa_accuracy("red/blue", ["red blue"] * 9 + ["no"]) == 1
    assert vqa_accuracy("red/blue", ["redblue"] * 9 + ["no"]) == 0


def test_vqa_accuracy_normalises_the_answers_too() -> None:
    assert vqa_accuracy("2", ["two", "Two.", "2", "the two", *["3"] * 6]) == 1


def test_vqa_accuracy_refuses() -> None:
    with pytest.raises(ValueError, match="at least one answer"):
        vqa_accuracy("a", [])
    with pytest.raises(ValueError, match="must be a list"):
        vqa_accuracy("a", "abc")


words = st.sampled_from(["yes", "no", "Yes", "two", "2", "a dog", "dog."])


@given(words, st.lists(words, min_size=1, max_size=10), st.randoms())
@quick
def test_vqa_accuracy_ignores_the_order_of_answers(
    said: str, answers: list[str], rng: random.Random
) -> None:
    shuffled = rng.sample(answers, len(answers))
    score = vqa_accuracy(said, answers)
    assert score == vqa_accuracy(said, shuffled)
    assert 0 <= score <= 1


# --- CIDEr-D -----------------------------------------------------------------------------

Captions = tuple[dict[int, str], dict[int, list[str]]]


def random_captions(seed: int, n: int, vocabulary: int) -> Captions:
    rng = random.Random(seed)

    def sentence() -> str:
        length = rng.choice([0, 1, 2, 3, 5, 9, 14])
        return " ".join(f"w{rng.randrange(vocabulary)}" for _ in range(length))

    references = {i: ["w0 w1 w0", *(sentence() for _ in range(rng.randrange(5)))] for i in range(n)}
    return {i: sentence() for i in range(n)}, references


def pycoco_cider(candidates: dict[int, str], references: dict[int, list[str]]) -> np.ndarray:
    cider = pytest.importorskip("pycocoevalcap.cider.cider").Cider()
    mean, scores = cider.compute_score(references, {i: [c] for i, c in candidates.items()})
    return np.append(scores, mean)


@pytest.mark.parametrize("vocabulary", [2, 6, 40])
@pytest.mark.parametrize("n", [1, 2, 30])
def test_cider_d_equals_pycocoevalcap_on_random_sentences(n: int, vocabulary: int) -> None:
    for seed in range(8):
        candidates, references = random_captions(seed, n, vocabulary)
        mean, scores = cider_d(candidates, references, tokenize=False)
        np.testing.assert_allclose(
            [*scores.values(), mean], pycoco_cider(candidates, references), rtol=0, atol=1e-9
        )


def test_cider_d_equals_pycocoevalcap_on_real_captions() -> None:
    root = os.environ.get("PMN_BENCH_SAMPLES")
    if not root:
        pytest.skip("PMN_BENCH_SAMPLES is not set: no real captions to compare on")
    path = Path(root, "coco_captions", "captions_val2014.json")
    records = json.loads(path.read_text(encoding="utf-8"))["annotations"]
    captions = [record["caption"] for record in records]
    # References of an image are few in the sample: each caption borrows its neighbours'.
    references = {i: captions[i : i + 5] for i in range(len(captions) - 5)}
    candidates = {i: captions[i + (i % 7)] for i in references if i + 7 < len(captions)}
    references = {i: references[i] for i in candidates}
    mean, scores = cider_d(candidates, references)
    expected = pycoco_cider(
        {i: " ".join(tokenize_caption(c)) for i, c in candidates.items()},
        {i: [" ".join(tokenize_caption(r)) for r in rs] for i, rs in references.items()},
    )
    assert mean > 1
    np.testing.assert_allclose([*scores.values(), mean], expected, rtol=0, atol=1e-9)


def test_cider_d_by_hand() -> None:
    # Two ids without a word in common: every n-gram has idf log 2, so the vectors are parallel
    # to the counts. Id 0 repeats its reference: cosine 1 for n = 1..3, no 4-grams: 10 * 3/4.
    # Id 1, "x" against "x y": n = 1 only, cosine 1/sqrt(2), lengths 1 and 2.
    mean, scores = cider_d({0: "a b c", 1: "x"}, {0: ["a b c"], 1: ["x y"]}, tokenize=False)
    second = 10 / 4 / np.sqrt(2) * np.exp(-1 / 72)
    assert scores == pytest.approx({0: 7.5, 1: second})
    assert mean == pytest.approx((7.5 + second) / 2)


def test_cider_d_tokenizes_and_keeps_ids() -> None:
    raw = cider_d({"x": "A dog.", 7: "Two cats!"}, {7: ["two CATS"], "x": ["a dog", "a  dog,"]})
    ready = cider_d(
        {"x": "a dog", 7: "two cats"}, {7: ["two cats"], "x": ["a dog"]}, tokenize=False
    )
    assert raw == ready
    assert list(raw[1]) == ["x", 7]


def test_cider_d_of_empty_sentences_is_zero() -> None:
    assert cider_d({0: "", 1: "."}, {0: [""], 1: ["!"]}) == (0.0, {0: 0.0, 1: 0.0})


@pytest.mark.parametrize(
    ("candidates", "references", "message"),
    [
        ({1: "a", 2: "b"}, {1: ["a"]}, "1 candidates have no references: 2"),
        ({1: "a"}, {1: ["a"], "k": ["b"]}, "1 references have no candidate: 'k'"),
        (dict.fromkeys(range(9), "a"), {}, r"9 candidates .* 0, 1, 2, 3, 4, \.\.\."),
        ({1: "a"}, {1: []}, "empty list of references: 1"),
        ({1: "a"}, {1: "a"}, "string for a list: 1"),
        ({}, {}, "nothing to score"),
    ],
)
def test_cider_d_refuses(candidates: dict, references: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        cider_d(candidates, references)


@given(st.integers(0, 10_000), st.permutations(range(6)))
@quick
def test_cider_d_does_not_depend_on_names_or_order_of_ids(seed: int, order: list[int]) -> None:
    candidates, references = random_captions(seed, n=6, vocabulary=5)
    mean, scores = cider_d(candidates, references, tokenize=False)
    renamed_mean, renamed = cider_d(
        {f"id {i}": candidates[i] for i in order},
        {f"id {i}": references[i] for i in reversed(order)},
        tokenize=False,
    )
    assert renamed_mean == pytest.approx(mean, abs=1e-12)
    assert renamed == pytest.approx({f"id {i}": s for i, s in scores.items()}, abs=1e-12)


# --- mean average precision --------------------------------------------------------------


def labels_and_scores(seed: int, levels: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    targets = (rng.random((60, 9)) < rng.random(9) * 0.4).astype(int)
    targets[:, 3] = 0  # a class without a positive
    targets[0, 0] = 1
    return rng.integers(0, levels, targets.shape) / levels, targets


@pytest.mark.parametrize("levels", [3, 10, 1_000_000])  # many ties, some, none
def test_mean_average_precision_equals_scikit_learn(levels: int) -> None:
    from sklearn.metrics import average_precision_score

    for seed in range(10):
        scores, targets = labels_and_scores(seed, levels)
        present = targets.any(axis=0)
        s, t = scores[:, present], targets[:, present]
        macro, weighted = mean_average_precision(scores, targets)
        assert macro == pytest.approx(average_precision_score(t, s, average="macro"), abs=1e-12)
        assert weighted == pytest.approx(
            average_precision_score(t, s, average="weighted"), abs=1e-12
        )


def test_mean_average_precision_by_hand() -> None:
    # Class 0: positives at ranks 1 and 3: (1/1 + 2/3) / 2. Class 1: one positive, rank 2: 1/2.
    scores = [[0.9, 0.5], [0.8, 0.9], [0.7, 0.1]]
    targets = [[1, 1], [0, 0], [1, 0]]
    result = mean_average_precision(scores, targets)
    assert result.macro == pytest.approx((5 / 6 + 1 / 2) / 2)
    assert result.weighted == pytest.approx((2 * 5 / 6 + 1 / 2) / 3)


@given(st.integers(0, 10_000))
@quick
def test_mean_average_precision_depends_on_the_ranking_alone(seed: int) -> None:
    scores, targets = labels_and_scores(seed, levels=8)
    expected = mean_average_precision(scores, targets)
    assert mean_average_precision(scores**3 * 8 - 5, targets) == expected
    shuffled = np.random.default_rng(seed).permutation(len(scores))
    assert mean_average_precision(scores[shuffled], targets[shuffled]) == expected


@pytest.mark.parametrize(
    ("scores", "targets", "message"),
    [
        (np.ones((4, 3)), np.zeros((4, 3)), "none of the 3 classes"),
        (np.ones((4, 3)), np.ones((4, 2)), r"\(4, 3\) and \(4, 2\)"),
        (np.ones(4), np.ones(4), r"\(4,\) and \(4,\)"),
        (np.full((4, 3), np.nan), np.ones((4, 3)), "12 of 12 scores are nan"),
        (np.ones((4, 3)), np.full((4, 3), 0.5), "only 0 and 1"),
    ],
)
def test_mean_average_precision_refuses(
    scores: np.ndarray, targets: np.ndarray, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        mean_average_precision(scores, targets)


# --- classes and counts ------------------------------------------------------------------


def test_class_metrics_equal_scikit_learn() -> None:
    from sklearn.metrics import accuracy_score, mean_squared_error, top_k_accuracy_score

    rng = np.random.default_rng(0)
    logits, targets = rng.normal(size=(200, 7)), rng.integers(0, 7, 200)
    ranked = np.argsort(-logits, axis=1)
    for k in (1, 3, 6):
        expected = top_k_accuracy_score(targets, logits, k=k, labels=range(7))
        assert metrics.top_k_accuracy(ranked, targets, k) == pytest.approx(expected)
    predictions = ranked[:, 0]
    assert metrics.accuracy(predictions, targets) == accuracy_score(targets, predictions)
    assert metrics.root_mean_square_error(predictions, targets) == pytest.approx(
        np.sqrt(mean_squared_error(targets, predictions))
    )


def test_counts_by_hand() -> None:
    predictions, targets = [3, 5, 0, 2], [4, 3, 0, 2]  # off by 1, 2, 0, 0
    assert metrics.within_one(predictions, targets) == 0.75
    assert metrics.root_mean_square_error(predictions, targets) == pytest.approx(np.sqrt(5 / 4))
    assert metrics.within_one(np.array([0], np.uint8), np.array([1], np.uint8)) == 1.0
    assert type(metrics.accuracy([1], [1])) is float


@pytest.mark.parametrize(
    "metric", [metrics.accuracy, metrics.within_one, metrics.root_mean_square_error]
)
def test_class_metrics_refuse(metric: Callable[[object, object], float]) -> None:
    with pytest.raises(ValueError, match=r"\(3,\), targets \(2,\)"):
        metric([1, 2, 3], [1, 2])
    with pytest.raises(ValueError, match="empty"):
        metric([], [])


@pytest.mark.parametrize(
    ("ranked", "targets", "k", "message"),
    [
        ([[1, 2], [3, 4]], [1], 1, r"\(2, 2\) and \(1,\)"),
        ([1, 2], [1, 2], 1, r"\(2,\) and \(2,\)"),
        ([[1, 2]], [1], 3, "k is 3, but ranked offers 1 to 2"),
        ([[1, 2]], [1], 0, "k is 0"),
        (np.zeros((0, 2)), [], 1, "empty"),
    ],
)
def test_top_k_accuracy_refuses(ranked: object, targets: list, k: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        metrics.top_k_accuracy(ranked, targets, k)


def test_metrics_import_nothing_heavy() -> None:
    code = (
        "import sys, pmn_cl.tasks.metrics, pmn_cl.results.scores;"
        "print([m for m in ('torch', 'sklearn', 'pandas', 'nltk', 'scipy') if m in sys.modules])"
    )
    root = Path(metrics.__file__).parents[2]
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True
    )
    assert run.stdout.strip() == "[]"
