"""The caption task: a sentence about the scene."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pmn_cl.tasks import metrics

if TYPE_CHECKING:
    from torch import Tensor
from pmn_cl.tasks.base import Columns, Names, Task, likeliest

_CAPTIONS_TRIED = 20


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
        return likeliest(outputs)

    def constant(self, columns: Columns, names: Names) -> NDArray[Any]:
        """The best of the commonest captions, evaluated on some of the samples."""
        found, counts = np.unique(columns["words"], axis=0, return_counts=True)
        common = found[np.argsort(-counts, kind="stable")[:_CAPTIONS_TRIED]]
        some = {"captions": columns["words"][:: 1 + len(columns["words"]) // 500, None]}
        scores = [
            self.score(caption[None].repeat(len(some["captions"]), axis=0), some, names)["cider_d"]
            for caption in common
        ]
        return np.asarray(common[int(np.argmax(scores))])


def words_to_text(numbers: NDArray[Any], words: list[str]) -> str:
    """Join words up to the end mark or the padding."""
    text = []
    for number in numbers:
        if words[number] in ("", "</s>"):
            break
        text.append(words[number])
    return " ".join(text)
