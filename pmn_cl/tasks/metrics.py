"""Metrics of single tasks: pure functions from predictions and truth to a Python float.

Each states its equation, its source and whether higher is better. Nothing here depends on tasks,
models or streams; what a whole stream of scores means is in `scores`.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pmn_cl.tasks.text import normalise_answer, strip_answer, tokenize_caption

__all__ = [
    "MeanAveragePrecision",
    "accuracy",
    "cider_d",
    "mean_average_precision",
    "root_mean_square_error",
    "top_k_accuracy",
    "vqa_accuracy",
    "within_one",
]

Key = TypeVar("Key", bound=Hashable)
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

# --- classes and counts ------------------------------------------------------------------


def accuracy(predictions: ArrayLike, targets: ArrayLike) -> float:
    """Share of predictions equal to their targets: mean of [p = t]. Higher is better."""
    p, t = _paired(predictions, targets)
    return float(np.mean(p == t))


def top_k_accuracy(ranked: ArrayLike, targets: ArrayLike, k: int) -> float:
    """Share of targets among the first k class ids of their row. Higher is better.

    `ranked` is (n, at least k), best class first; `targets` is (n,).
    """
    r, t = np.asarray(ranked), np.asarray(targets)
    if r.ndim != 2 or t.shape != r.shape[:1]:
        raise ValueError(
            f"ranked must be (n, at least k) and targets (n,), not {r.shape} and {t.shape}"
        )
    if not 1 <= k <= r.shape[1]:
        raise ValueError(f"k is {k}, but ranked offers 1 to {r.shape[1]} classes per row")
    _require_some(t)
    return float(np.mean((r[:, :k] == t[:, None]).any(axis=1)))


def within_one(predictions: ArrayLike, targets: ArrayLike) -> float:
    """Share of counts at most one off: mean of [|p - t| <= 1]. Higher is better."""
    p, t = _paired_numbers(predictions, targets)
    return float(np.mean(np.abs(p - t) <= 1))


def root_mean_square_error(predictions: ArrayLike, targets: ArrayLike) -> float:
    """Square root of the mean of (p - t)^2. LOWER is better, 0 is perfect."""
    p, t = _paired_numbers(predictions, targets)
    return float(np.sqrt(np.mean((p - t) ** 2)))


def _paired(predictions: ArrayLike, targets: ArrayLike) -> tuple[NDArray[Any], NDArray[Any]]:
    p, t = np.asarray(predictions), np.asarray(targets)
    if p.shape != t.shape:
        raise ValueError(f"predictions have shape {p.shape}, targets {t.shape}; they must agree")
    _require_some(t)
    return p, t


def _paired_numbers(predictions: ArrayLike, targets: ArrayLike) -> tuple[Floats, Floats]:
    p, t = _paired(predictions, targets)
    return p.astype(np.float64), t.astype(np.float64)  # unsigned integers would wrap around


def _require_some(targets: NDArray[Any]) -> None:
    if targets.size == 0:
        raise ValueError("nothing to score: predictions and targets are empty")


# --- several labels at once --------------------------------------------------------------


class MeanAveragePrecision(NamedTuple):
    """Average precision over classes: each class alike, and each by its number of positives."""

    macro: float
    weighted: float


def mean_average_precision(scores: ArrayLike, targets: ArrayLike) -> MeanAveragePrecision:
    """Mean over classes of AP = sum over k of (R_k - R_{k-1}) P_k. Higher is better.

    P_k and R_k are precision and recall at the k-th distinct score from the top, so that tied
    scores enter together and no order among them is invented (scikit-learn's definition; its own
    function takes 7 times as long, and in half of all cases another last bit).
    `scores` and `targets` (0 or 1) are (n, classes). A class without a positive has no recall
    and is left out; if all are like that there is nothing to average, which is an error.
    """
    s, t = np.asarray(scores, dtype=np.float64), np.asarray(targets)
    if s.ndim != 2 or s.shape != t.shape:
        raise ValueError(
            f"scores and targets must both be (n, classes), not {s.shape} and {t.shape}"
        )
    if np.isnan(s).any():
        raise ValueError(f"{int(np.isnan(s).sum())} of {s.size} scores are nan: they rank nowhere")
    if not np.isin(t, (0, 1)).all():
        raise ValueError("targets must hold only 0 and 1 (or booleans)")
    positives = t.astype(np.int64).sum(axis=0)  # (classes,)
    present = np.flatnonzero(positives)
    if present.size == 0:
        raise ValueError(f"none of the {s.shape[1]} classes has a positive among {len(s)} samples")
    # One class at a time: memory stays at a column's size for thousands of classes.
    values = np.array([_average_precision(s[:, c], t[:, c] == 1) for c in present])
    weighted = np.average(values, weights=positives[present])
    return MeanAveragePrecision(float(values.mean()), float(weighted))


def _average_precision(scores: Floats, positive: NDArray[np.bool_]) -> float:
    order = np.argsort(-scores)
    hits = np.cumsum(positive[order])
    ends = np.flatnonzero(np.append(np.diff(scores[order]) != 0, True))  # last of each tie
    precision = hits[ends] / (ends + 1)
    gained = np.diff(hits[ends], prepend=0)
    return float(np.sum(gained * precision) / hits[-1])


# --- answers of ten people ---------------------------------------------------------------


def vqa_accuracy(prediction: str, answers: Sequence[str]) -> float:
    """Mean over annotators i of min(matches among the other annotators / 3, 1). Higher is better.

    Antol et al. 2015; with ten annotators 0, 0.3, 0.6, 0.9, 1 for 0 to 4 or more matches.
    As in the published evaluator, prediction and answers lose outer white space, and are
    normalised only where the answers differ. So `Yes` is wrong where all ten wrote `yes`.
    """
    if isinstance(answers, str) or len(answers) == 0:
        raise ValueError(f"answers must be a list with at least one answer, not {answers!r}")
    given, truths = strip_answer(prediction), [strip_answer(answer) for answer in answers]
    if len(set(truths)) > 1:
        given, truths = normalise_answer(given), [normalise_answer(truth) for truth in truths]
    n, m = len(truths), truths.count(given)
    # m annotators see m - 1 matches among the others, the remaining n - m see all m.
    return (m * min((m - 1) / 3, 1.0) + (n - m) * min(m / 3, 1.0)) / n


# --- captions ----------------------------------------------------------------------------

_SIGMA = 6.0
_ORDERS = 4


def cider_d(
    candidates: Mapping[Key, str],
    references: Mapping[Key, Sequence[str]],
    *,
    tokenize: bool = True,
) -> tuple[float, dict[Key, float]]:
    """CIDEr-D (Vedantam et al. 2015) as pycocoevalcap computes it: mean, and score per id.

    For n = 1..4, with g(s) the tf-idf vector of the n-grams of s, l(s) its length, and r over the
    references of c:
    score = 10 / 4 * sum_n mean_r exp(-(l(c) - l(r))^2 / (2 * 6^2)) min(g(c), g(r)) . g(r)
    / (|g(c)| |g(r)|). Higher is better; 0 to 10.
    idf = log(ids) - log(ids whose references have the n-gram), from the references given, so a
    score means something only within one test set (and is 0 for a single id).
    `tokenize=False` takes words already joined by spaces.
    """
    _check_captions(candidates, references)
    ids = list(candidates)
    sentences = [candidates[i] for i in ids] + [r for i in ids for r in references[i]]
    words = [tokenize_caption(s) if tokenize else s.split() for s in sentences]
    # Candidates are sentences 0..N-1; `owner` has the candidate of each later sentence.
    owner = np.repeat(np.arange(len(ids)), [len(references[i]) for i in ids])  # (references,)
    lengths = np.array([len(w) for w in words], dtype=np.int64)
    gap = lengths[owner] - lengths[len(ids) :]
    similarity = np.zeros(len(owner))
    for grams in _ngrams(words, lengths):
        similarity += _clipped_cosine(*grams, owner=owner, n_ids=len(ids))
    similarity *= np.exp(-(gap**2) / (2 * _SIGMA**2)) * 10.0 / _ORDERS
    scores = np.bincount(owner, weights=similarity) / np.bincount(owner)
    return float(scores.mean()), dict(zip(ids, scores.tolist(), strict=True))


def _check_captions(
    candidates: Mapping[Key, str], references: Mapping[Key, Collection[str]]
) -> None:
    if not candidates and not references:
        raise ValueError("nothing to score: there are no candidates and no references")
    for kind, odd in (
        ("candidates have no references", candidates.keys() - references.keys()),
        ("references have no candidate", references.keys() - candidates.keys()),
        ("ids have an empty list of references", {i for i, r in references.items() if not r}),
        ("ids have a string for a list", {i for i, r in references.items() if isinstance(r, str)}),
    ):
        if odd:
            raise ValueError(f"{len(odd)} {kind}: {_some(odd)}")


def _some(ids: Iterable[Hashable], shown: int = 5) -> str:
    names = sorted(repr(i) for i in ids)
    return ", ".join(names[:shown]) + (", ..." if len(names) > shown else "")


def _ngrams(words: Sequence[Sequence[str]], lengths: Ints) -> Iterable[tuple[Ints, Ints]]:
    """Yield for n = 1..4 the sentence and the n-gram's number, at every place of the corpus."""
    number: dict[str, int] = {}
    word = np.array([number.setdefault(w, len(number)) for s in words for w in s], dtype=np.int64)
    sentence = np.repeat(np.arange(len(words)), lengths)
    gram = word
    for n in range(1, _ORDERS + 1):
        start = sentence[: max(len(sentence) - n + 1, 0)]
        inside = start == sentence[n - 1 :]  # no n-gram runs from one sentence into the next
        yield start[inside], gram[inside]
        # An n+1-gram is an n-gram and the word after it; renumbering keeps the product small.
        longer = gram[:-1] * len(number) + word[n:]
        gram = np.unique(longer, return_inverse=True)[1].reshape(-1)


def _clipped_cosine(sentence: Ints, gram: Ints, *, owner: Ints, n_ids: int) -> Floats:
    """Similarity of each reference to its candidate for one n, before the length penalty."""
    n_grams = int(gram.max(initial=-1)) + 1
    key, count = np.unique(sentence * n_grams + gram, return_counts=True)
    sentence, gram = np.divmod(key, max(n_grams, 1))
    is_reference = sentence >= n_ids
    whose = np.where(is_reference, owner[sentence - n_ids], sentence)
    in_references = np.unique(whose[is_reference] * n_grams + gram[is_reference])
    frequency = np.bincount(in_references % max(n_grams, 1), minlength=n_grams)
    idf = np.log(n_ids) - np.log(np.maximum(frequency, 1))
    weight = count * idf[gram]
    norm = np.sqrt(np.bincount(sentence, weights=weight**2, minlength=n_ids + len(owner)))

    mine = key[~is_reference]  # sorted, since np.unique sorts
    sought = whose[is_reference] * n_grams + gram[is_reference]
    place = np.minimum(np.searchsorted(mine, sought), max(len(mine) - 1, 0))
    theirs = weight[is_reference]
    shared = np.zeros(len(theirs))
    if len(mine):
        found = mine[place] == sought
        shared[found] = np.minimum(weight[~is_reference][place], theirs)[found] * theirs[found]
    reference = sentence[is_reference] - n_ids
    dot = np.bincount(reference, weights=shared, minlength=len(owner))
    scale = norm[owner] * norm[n_ids:]
    cosine = np.zeros(len(owner))
    np.divide(dot, scale, out=cosine, where=scale > 0)
    return cosine
