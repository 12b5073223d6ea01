"""The GRU's own gradient against torch's."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence

from pmn_cl.modules.recurrent import last_states

_WIDTH, _HIDDEN = 3, 4


def packed(lengths: list[int], seed: int) -> tuple[PackedSequence, Tensor]:
    """Sequences of these lengths, and the padded tensor that they come from."""
    generator = torch.Generator().manual_seed(seed)
    shape = (len(lengths), max(lengths), _WIDTH)
    padded = torch.randn(shape, generator=generator, dtype=torch.float64, requires_grad=True)
    rows = pack_padded_sequence(
        padded, torch.tensor(lengths), batch_first=True, enforce_sorted=False
    )
    return rows, padded


def gru_of(seed: int) -> nn.GRU:
    torch.manual_seed(seed)
    return nn.GRU(_WIDTH, _HIDDEN, batch_first=True).double()


@settings(deadline=None, max_examples=30)
@given(st.lists(st.integers(1, 6), min_size=1, max_size=5), st.integers(0, 2**16))
def test_states_and_every_gradient_are_torchs(lengths: list[int], seed: int) -> None:
    gru = gru_of(seed)
    weights = [*gru.parameters()]
    found = []
    for ours in (True, False):
        rows, padded = packed(lengths, seed)
        last = last_states(gru, rows) if ours else gru(rows)[1][0]
        wanted = torch.linspace(-1, 1, last.numel(), dtype=torch.float64).view_as(last)
        gradients = torch.autograd.grad((last * wanted).sum(), [padded, *weights])
        found.append([last.detach(), *gradients])
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs)


def test_the_gradient_is_that_of_small_differences() -> None:
    gru = gru_of(0)
    rows, _ = packed([3, 1, 4], seed=0)

    def after(data: Tensor) -> Tensor:
        return last_states(gru, rows._replace(data=data))

    assert torch.autograd.gradcheck(after, (rows.data.detach().requires_grad_(),))


@pytest.mark.parametrize(
    "other", [{"num_layers": 2}, {"bias": False}, {"dropout": 0.0, "bidirectional": True}]
)
def test_other_grus_are_torchs(other: dict[str, Any]) -> None:
    gru = nn.GRU(_WIDTH, _HIDDEN, batch_first=True, **other).double()
    rows, _ = packed([3, 1, 4], seed=2)
    assert torch.equal(last_states(gru, rows), gru(rows)[1][-1])


def test_in_single_precision_sorted_and_with_frozen_weights() -> None:
    gru = gru_of(3).float().requires_grad_(False)
    words = torch.randn(3, 5, _WIDTH, generator=torch.Generator().manual_seed(3))
    found = []
    for read in (lambda rows: last_states(gru, rows), lambda rows: gru(rows)[1][0]):
        words = words.detach().requires_grad_()
        last = read(pack_padded_sequence(words, torch.tensor([5, 4, 1]), batch_first=True))
        last.T.sum(0)[0].backward()  # a gradient that does not lie as the states do
        found.append((last.detach(), words.grad))
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs)
    assert all(weight.grad is None for weight in gru.parameters())
