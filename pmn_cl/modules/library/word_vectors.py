"""Word vectors to start from, where a world's store has them: GloVe's, as in the paper.

A store keeps them in ``words/question`` and ``words/caption``: ``vector`` has a row for each word
of the list, ``found`` says which of them GloVe knows. The others start as they always do.
"""

from __future__ import annotations

from typing import cast

import torch
from torch import nn

from pmn_cl.data.store import Store
from pmn_cl.modules.layers import QuestionEncoder

WORDS = "words"  # where a store has them, in place of a split
QUESTION, CAPTION = "question", "caption"


def start_words(module: nn.Module, store: Store) -> None:
    """Give a module's words the vectors of the store, if there are any of its width.

    Words of captions are an embedding that a module has as its ``words``.
    """
    for part in module.modules():
        words = getattr(part, "words", None)
        if isinstance(words, nn.Embedding):
            _start(words, store, QUESTION if isinstance(part, QuestionEncoder) else CAPTION)


@torch.no_grad()
def _start(words: nn.Embedding, store: Store, which: str) -> None:
    if which not in store.tasks(WORDS):
        return
    table = store.table(WORDS, which)
    if table["vector"].shape != tuple(words.weight.shape):
        return  # of another width than the module's, as with ``size: small``
    found = torch.from_numpy(table["found"].load())
    vectors = torch.from_numpy(table["vector"].load())
    weight = cast(nn.Parameter, words.weight)
    weight[found] = vectors[found].to(weight)
