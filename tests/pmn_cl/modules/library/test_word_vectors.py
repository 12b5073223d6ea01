"""Word vectors of a store: they are what words start from, where there are any that fit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from pmn_cl.data.store import Store, StoreWriter, build_store
from pmn_cl.modules.layers import QuestionEncoder
from pmn_cl.modules.library.word_vectors import start_words

VECTORS = np.arange(15, dtype="f4").reshape(5, 3)
WORDS = ["", *"abcd"]
FOUND = np.array([False, False, True, False, True])


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Vectors of three numbers for five words of questions, and for none of captions."""

    def write(writer: StoreWriter) -> None:
        for name, values in (("vector", VECTORS), ("found", FOUND)):
            writer.create(f"words/question/{name}", 5, values.shape[1:], values.dtype)
            writer.append(f"words/question/{name}", values)

    build_store(tmp_path / "words.h5", write, header={}, size=0)
    return Store(tmp_path / "words.h5")


class Speaker(nn.Module):
    """Has words of captions beside a question encoder."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(5, 3, padding_idx=0)
        self.question = QuestionEncoder(WORDS, word=3, hidden=4)


def test_words_that_are_found_start_from_their_vectors(store: Store) -> None:
    encoder = QuestionEncoder(WORDS, word=3, hidden=4)
    before = encoder.words.weight.clone()
    start_words(encoder, store)
    after = encoder.words.weight
    assert after[2].tolist() == [6, 7, 8] and after[4].tolist() == [12, 13, 14]
    assert torch.equal(after[[0, 1, 3]], before[[0, 1, 3]])
    assert after[0].tolist() == [0, 0, 0]  # padding
    assert after.requires_grad  # fine-tuned, as in the paper


def test_each_vocabulary_has_vectors_of_its_own(store: Store) -> None:
    speaker = Speaker()
    before = speaker.words.weight.clone()
    start_words(speaker, store)
    assert torch.equal(speaker.words.weight, before)
    assert speaker.question.words.weight[4].tolist() == [12, 13, 14]


def test_vectors_of_another_width_are_left_alone(store: Store) -> None:
    encoder = QuestionEncoder(WORDS, word=4, hidden=4)
    before = encoder.words.weight.clone()
    start_words(encoder, store)
    assert torch.equal(encoder.words.weight, before)


def test_a_store_without_vectors_changes_nothing(digits: Store) -> None:
    encoder = QuestionEncoder(WORDS, word=3, hidden=4)
    before = encoder.words.weight.clone()
    start_words(encoder, digits)
    assert torch.equal(encoder.words.weight, before)
