"""The six tasks of the paper: what a sample asks, how an answer is scored and trained.

A task knows no model. ``query`` and ``target`` name the columns of its samples that a batch
carries; scores are 0 to 1 (CIDEr-D is not bounded), higher is better for every primary metric.

Models give *outputs* (logits) to ``loss`` and *predictions* (what ``decode`` makes of outputs,
small enough to keep for a whole split) to ``score``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from pmn_cl import metrics

if TYPE_CHECKING:
    from torch import Tensor

# Supervision of the query to the relation module, for questions that need it.
ASKED_OF_RELATION = ("ask_boxes", "ask_relation", "ask_direction")
_CAPTIONS_TRIED = 20

FORMS = {
    "class": "one of some classes for each region (B, N, classes)",
    "labels": "any of some labels for each region (B, N, labels)",
    "pointing": "one of the regions (B, N)",
    "sentence": "words (B, T, words)",
    "count": "how many (B, counts)",
    "answer": "any of some answers (B, answers)",
}

Columns = Mapping[str, NDArray[Any]]
Names = Mapping[str, list[str]]  # what a store's numbers mean


class Task(ABC):
    """One kind of thing to learn."""

    name: ClassVar[str]
    summary: ClassVar[str]  # one line, for ``pmn-bench list``
    level: ClassVar[int]  # the paper's: a module may call modules of lower levels
    calls: ClassVar[tuple[str, ...]] = ()  # the paper's call list, lower modules only
    query: ClassVar[tuple[str, ...]] = ()
    target: ClassVar[tuple[str, ...]]
    scored: ClassVar[tuple[str, ...]] = ()  # further columns that ``score`` needs
    metric: ClassVar[str]  # the primary one among the keys of ``score``
    outputs: ClassVar[str | None] = None  # the list of a store's names that outputs are over
    form: ClassVar[str] = ""  # of its outputs, for networks with a head per task: see FORMS
    table: ClassVar[str] = ""  # the store's table of samples, where it is another task's

    @property
    def table_name(self) -> str:
        """Return the table that the samples are in."""
        return self.table or self.name

    @abstractmethod
    def score(self, predictions: NDArray[Any], columns: Columns, names: Names) -> dict[str, float]:
        """Return the primary and secondary metrics of predictions for these samples."""

    @abstractmethod
    def loss(self, outputs: Tensor, targets: Mapping[str, Tensor]) -> Tensor:
        """Return the mean training loss of a batch."""

    @abstractmethod
    def decode(self, outputs: Tensor) -> NDArray[Any]:
        """Return the predictions that outputs stand for."""

    @abstractmethod
    def constant(self, columns: Columns, names: Names) -> NDArray[Any]:
        """Return the one prediction that serves all these samples best, as one row."""

    def prior(self, columns: Columns, names: Names) -> dict[str, list[tuple[str, float]]]:
        """Return for each kind of sample the answers with their shares, most common first."""
        return {}


def _most_common(values: NDArray[Any]) -> NDArray[np.int64]:
    """Return the values from the most to the least common."""
    found, counts = np.unique(values, return_counts=True)
    return np.asarray(found[np.argsort(-counts, kind="stable")], dtype=np.int64)


def _ranked(shares: NDArray[Any], names: list[str]) -> list[tuple[str, float]]:
    """Return the shares above zero by name, the largest first."""
    order = np.argsort(-shares, kind="stable")
    return [(names[i], float(shares[i])) for i in order if shares[i] > 0]


class ObjectTask(Task):
    """Which object does each region show? outputs (B, N, classes), predictions (n, N, 5)."""

    name, summary, level = "obj", "classify the object of each region", 0
    outputs = "objects"
    form = "class"
    target = ("label", "asked")
    metric = "top1"

    def score(self, predictions: NDArray[Any], columns: Columns, names: Names) -> dict[str, float]:
        """Top-1 and top-5 accuracy over regions; predictions are ranked class numbers.

        ``top1_objects`` leaves background (class 0) out, of which some splits have none.
        """
        asked = columns["asked"]
        ranked, labels = predictions[asked], columns["label"][asked]
        found = {
            "top1": metrics.top_k_accuracy(ranked, labels, 1),
            "top5": metrics.top_k_accuracy(ranked, labels, 5),
        }
        objects = labels > 0
        if objects.any():
            found["top1_objects"] = metrics.top_k_accuracy(ranked[objects], labels[objects], 1)
        return found

    def loss(self, outputs: Tensor, targets: Mapping[str, Tensor]) -> Tensor:
        """Cross-entropy over the regions asked about."""
        from torch.nn.functional import cross_entropy

        asked = targets["asked"]
        return cross_entropy(outputs[asked], targets["label"][asked])

    def decode(self, outputs: Tensor) -> NDArray[Any]:
        """The five likeliest classes of each region, best first."""
        top = outputs.topk(min(5, outputs.shape[-1]), dim=-1).indices
        return np.asarray(top.cpu().numpy())

    def constant(self, columns: Columns, names: Names) -> NDArray[Any]:
        """The five most common classes, for every region."""
        common = _most_common(columns["label"][columns["asked"]])[:5]
        common = np.pad(common, (0, 5 - len(common)), constant_values=-1)
        return np.tile(common, (columns["label"].shape[1], 1))

    def prior(self, columns: Columns, names: Names) -> dict[str, list[tuple[str, float]]]:
        """How common each class is."""
        labels = columns["label"][columns["asked"]]
        return {"": _ranked(np.bincount(labels) / len(labels), names["objects"])}


class AttributeTask(Task):
    """Which attributes does each region have? outputs and predictions (B, N, attributes)."""

    name, summary, level = "att", "say which attributes each region has (multi-label)", 0
    outputs = "attributes"
    form = "labels"
    target = ("attributes", "asked")
    metric = "map"

    def score(self, predictions: NDArray[Any], columns: Columns, names: Names) -> dict[str, float]:
        """Mean average precision over attributes, plain and weighted by their frequency."""
        asked = columns["asked"]
        plain, weighted = metrics.mean_average_precision(
            predictions[asked], columns["attributes"][asked]
        )
        return {"map": plain, "weighted_map": weighted}

    def loss(self, outputs: Tensor, targets: Mapping[str, Tensor]) -> Tensor:
        """Binary cross-entropy over the regions asked about."""
        from torch.nn.functional import binary_cross_entropy_with_logits

        asked = targets["asked"]
        truth = targets["attributes"][asked].to(outputs.dtype)
        return binary_cross_entropy_with_logits(outputs[asked], truth)

    def decode(self, outputs: Tensor) -> NDArray[Any]:
        """The score of every attribute."""
        return np.asarray(outputs.float().cpu().numpy())

    def constant(self, columns: Columns, names: Names) -> NDArray[Any]:
        """Each attribute's frequency, for every region."""
        shares = columns["attributes"][columns["asked"]].mean(axis=0, dtype=np.float64)
        return np.tile(shares, (columns["attributes"].shape[1], 1))

    def prior(self, columns: Columns, names: Names) -> dict[str, list[tuple[str, float]]]:
        """How many regions have each attribute."""
        return {"": _ranked(self.constant(columns, names)[0], names["attributes"])}


class RelationTask(Task):
    """Which box stands in this relation to that box? outputs (B, N), predictions (n,)."""

    name, summary, level = "rel", "find the box that stands in a relation to a given box", 1
    calls = ("obj", "att")
    form = "pointing"
    query = ("box", "relation", "direction")
    target = ("target", "satisfying")
    metric = "accuracy"

    def score(self, predictions: NDArray[Any], columns: Columns, names: Names) -> dict[str, float]:
        """Accuracy: any box that fits is right, also by the direction sought.

        ``drawn_box`` counts only the box that the sample was drawn with, as where annotators
        name one; several boxes fit many queries, so even a perfect model stays below 1 there.
        """
        fits = columns["satisfying"][np.arange(len(predictions)), predictions]
        return {
            "accuracy": float(fits.mean()),
            "drawn_box": metrics.accuracy(predictions, columns["target"]),
            **_by_kind(fits, columns, "direction", names.get("directions")),
        }

    def loss(self, outputs: Tensor, targets: Mapping[str, Tensor]) -> Tensor:
        """Cross-entropy over boxes, all that fit being equally right; padding is at −∞.

        Its expectation is that of the drawn box alone, without the noise of the draw.
        """
        fits = targets["satisfying"].to(outputs.dtype)
        # Padding never fits; zero times its infinite cost has to stay zero.
        costs = -outputs.log_softmax(1).masked_fill(~targets["satisfying"], 0)
        loss: Tensor = (costs.sum(1) / fits.sum(1)).mean()
        return loss

    def decode(self, outputs: Tensor) -> NDArray[Any]:
        """The likeliest box."""
        return _argmax(outputs)

    def constant(self, columns: Columns, names: Names) -> NDArray[Any]:
        """The box number that fits most often."""
        return np.asarray(columns["satisfying"].mean(axis=0).argmax())


class CaptionTask(Task):
    """Describe the scene in a sentence. outputs (B, T, words), predictions (n, T)."""

    name, summary, level = "cap", "describe the scene in a sentence", 1
    calls = ("obj", "att")
    outputs = "caption words"
    form = "sentence"
    target = ("words",)
    scored = ("captions",)  # all references of the scene: not for learning
    metric = "cider_d"

    def score(self, predictions: NDArray[Any], columns: Columns, names: Names) -> dict[str, float]:
        """CIDEr-D against all references of a scene.

        People write words that are not learned: where a world keeps those, "reference words" go on
        where "caption words" end. A scene with fewer references than others has empty rows.
        """
        words = names["caption words"]
        written = names.get("reference words", words)
        candidates = {i: words_to_text(row, words) for i, row in enumerate(predictions)}
        references = {
            i: [words_to_text(row, written) for row in rows if row[0]]
            for i, rows in enumerate(columns["captions"])
        }
        return {"cider_d": metrics.cider_d(candidates, references, tokenize=False)[0]}

    def loss(self, outputs: Tensor, targets: Mapping[str, Tensor]) -> Tensor:
        """Cross-entropy per word of the reference ``words`` (B, T); padding (0) is left out."""
        from torch.nn.functional import cross_entropy

        return cross_entropy(outputs.flatten(0, 1), targets["words"].flatten(), ignore_index=0)

    def decode(self, outputs: Tensor) -> NDArray[Any]:
        """The likeliest word at each step."""
        return _argmax(outputs)

    def constant(self, columns: Columns, names: Names) -> NDArray[Any]:
        """The best of the commonest captions, judged on some of the samples."""
        found, counts = np.unique(columns["words"], axis=0, return_counts=True)
        common = found[np.argsort(-counts, kind="stable")[:_CAPTIONS_TRIED]]
        some = {"captions": columns["words"][:: 1 + len(columns["words"]) // 500, None]}
        scores = [
            self.score(caption[None].repeat(len(some["captions"]), axis=0), some, names)["cider_d"]
            for caption in common
        ]
        return np.asarray(common[int(np.argmax(scores))])


class CountTask(Task):
    """How many are there? outputs (B, counts), predictions (n,)."""

    name, summary, level = "cnt", "answer how many there are, 0 to 12", 2
    calls = ("obj", "att", "rel")  # the paper's Table 2: Ω and Q→rel attend over their vectors
    outputs = "counts"
    form = "count"
    query = ("question",)
    target = ("count", *ASKED_OF_RELATION)
    metric = "accuracy"

    def score(self, predictions: NDArray[Any], columns: Columns, names: Names) -> dict[str, float]:
        """Accuracy (also by kind of question), accuracy within one, and the error's size."""
        count = columns["count"]
        by_kind = _by_kind(predictions == count, columns, "kind", names.get("cnt kinds"))
        return {
            "accuracy": metrics.accuracy(predictions, count),
            "within_one": metrics.within_one(predictions, count),
            "rmse": metrics.root_mean_square_error(predictions, count),
            **by_kind,
        }

    def loss(self, outputs: Tensor, targets: Mapping[str, Tensor]) -> Tensor:
        """Cross-entropy over counts."""
        from torch.nn.functional import cross_entropy

        return cross_entropy(outputs, targets["count"])

    def decode(self, outputs: Tensor) -> NDArray[Any]:
        """The likeliest count."""
        return _argmax(outputs)

    def constant(self, columns: Columns, names: Names) -> NDArray[Any]:
        """The most common count."""
        return np.asarray(_most_common(columns["count"])[0])

    def prior(self, columns: Columns, names: Names) -> dict[str, list[tuple[str, float]]]:
        """How common each count is, by kind of question."""
        priors = {}
        for kind, chosen in _kinds(columns, names.get("cnt kinds")):
            counts = columns["count"][chosen]
            priors[kind] = _ranked(np.bincount(counts) / len(counts), names["counts"])
        return priors


class AnswerTask(Task):
    """Answer a question about the scene. outputs (B, answers), predictions (n,).

    A sample names up to K answers with a score each (``answers``, ``scores`` (B, K)): one right
    answer in a world with exact truth, several with soft scores where people were asked.
    """

    name, summary, level = "vqa", "answer a question about the scene", 3
    calls = ("rel", "obj", "att", "cnt", "cap")
    outputs = "answers"
    form = "answer"
    query = ("question",)
    target = ("answers", "scores", *ASKED_OF_RELATION)
    metric = "accuracy"

    def score(self, predictions: NDArray[Any], columns: Columns, names: Names) -> dict[str, float]:
        """The mean score of the answers given, overall, by answer type and by hops."""
        earned = (columns["scores"] * (columns["answers"] == predictions[:, None])).sum(axis=1)
        return {"accuracy": float(earned.mean()), **self.by_question(earned, columns, names)}

    def by_question(self, values: NDArray[Any], columns: Columns, names: Names) -> dict[str, float]:
        """Return the mean of what there is one of for each question, by answer type and by hops."""
        by_type = _by_kind(values, columns, "kind", names.get("vqa kinds"))
        by_hops = _by_kind(values, columns, "hops", ["no hop", "one hop", "two hops"])
        return {**by_type, **by_hops}

    def loss(self, outputs: Tensor, targets: Mapping[str, Tensor]) -> Tensor:
        """Binary cross-entropy over all answers, summed over answers as VQA models do."""
        import torch
        from torch.nn.functional import binary_cross_entropy_with_logits

        soft = torch.zeros_like(outputs).scatter_add_(
            1, targets["answers"], targets["scores"].to(outputs.dtype)
        )
        return binary_cross_entropy_with_logits(outputs, soft, reduction="sum") / len(outputs)

    def decode(self, outputs: Tensor) -> NDArray[Any]:
        """The likeliest answer."""
        return _argmax(outputs)

    def constant(self, columns: Columns, names: Names) -> NDArray[Any]:
        """The answer with the highest score over all samples."""
        totals = np.bincount(columns["answers"].ravel(), columns["scores"].ravel())
        return np.asarray(totals.argmax())

    def prior(self, columns: Columns, names: Names) -> dict[str, list[tuple[str, float]]]:
        """What each answer would score if it were always given, by answer type."""
        priors = {}
        for kind, chosen in _kinds(columns, names.get("vqa kinds")):
            answers, scores = columns["answers"][chosen], columns["scores"][chosen]
            totals = np.bincount(answers.ravel(), scores.ravel())
            priors[kind] = _ranked(totals / len(answers), names["answers"])
        return priors


def _argmax(outputs: Tensor) -> NDArray[Any]:
    return np.asarray(outputs.argmax(dim=-1).cpu().numpy())


def _kinds(columns: Columns, names: list[str] | None) -> Iterator[tuple[str, NDArray[Any]]]:
    """Yield each kind of sample that occurs, with the samples of that kind; or all as one."""
    if "kind" not in columns or names is None:
        yield "", np.ones(len(columns["scene"]), dtype=bool)
        return
    for number, name in enumerate(names):
        chosen = columns["kind"] == number
        if chosen.any():
            yield name, chosen


def _by_kind(
    values: NDArray[Any], columns: Columns, column: str, names: list[str] | None
) -> dict[str, float]:
    """Return the mean of the values of each kind that occurs; nothing where kinds have no names."""
    if column not in columns or names is None:
        return {}
    chosen = {name: values[columns[column] == number] for number, name in enumerate(names)}
    return {name: float(some.mean()) for name, some in chosen.items() if len(some)}


def words_to_text(numbers: NDArray[Any], words: list[str]) -> str:
    """Join words up to the end mark or the padding."""
    text = []
    for number in numbers:
        if words[number] in ("", "</s>"):
            break
        text.append(words[number])
    return " ".join(text)
