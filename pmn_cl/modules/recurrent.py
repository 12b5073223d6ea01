"""The last states of a GRU over sequences of unequal length, with a gradient of its own.

On CPUs torch's gradient of a packed GRU fills and adds up a whole matrix for every step. The names
are those of torch's documentation: r resets, z keeps, n is new, h is the state.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn.utils.rnn import PackedSequence


def last_states(gru: nn.GRU, packed: PackedSequence) -> Tensor:
    """Return the state (B, hidden) of a GRU, of its last layer, after the end of each sequence."""
    plain = gru.bias and gru.num_layers == 1 and not gru.bidirectional
    if packed.data.is_cuda or not plain or torch.is_autocast_enabled("cpu"):
        last: Tensor = gru(packed)[1][-1]  # on GPUs torch has the whole GRU as one operation
        return last
    weights = (gru.weight_ih_l0, gru.weight_hh_l0, gru.bias_ih_l0, gru.bias_hh_l0)
    last = _LastStates.apply(packed.data, packed.batch_sizes.tolist(), *weights)  # type: ignore[no-untyped-call]
    return last if packed.unsorted_indices is None else last[packed.unsorted_indices]


class _LastStates(torch.autograd.Function):
    """Steps t over the rows of a packed sequence, the longest first: ever fewer go on."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, sizes: list[int], w_x: Tensor, w_h: Tensor, b_x: Tensor, b_h: Tensor
    ) -> Tensor:
        hidden = w_h.shape[1]
        gates = torch.addmm(b_x, x, w_x.T)  # (rows, 3 · hidden): r, z, n, once they are made
        before, candidate = (x.new_empty(len(x), hidden) for _ in range(2))  # h, and its part of n
        h, last = x.new_zeros(sizes[0], hidden), x.new_empty(sizes[0], hidden)
        for rows, count in _steps(sizes):
            last[count : len(h)] = h[count:]  # these have ended
            h = h[:count]
            of_state = torch.addmm(b_h, h, w_h.T)
            before[rows], candidate[rows] = h, of_state[:, 2 * hidden :]
            rz, n = gates[rows, : 2 * hidden], gates[rows, 2 * hidden :]
            r, z = rz.add_(of_state[:, : 2 * hidden]).sigmoid_().chunk(2, dim=1)
            h = n.addcmul_(r, candidate[rows]).tanh_().lerp(h, z)
        last[: len(h)] = h
        ctx.sizes = sizes
        ctx.save_for_backward(x, w_x, w_h, gates, before, candidate)
        return last

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, w_x, w_h, gates, before, candidate = ctx.saved_tensors
        of_input = torch.empty_like(gates)  # the gradient of what a sigmoid or tanh was taken of
        of_state = torch.empty_like(gates)  # the same, of what came from the state
        dh = grad[:0]
        for rows, count in reversed(_steps(ctx.sizes)):
            dh = torch.cat([dh, grad[len(dh) : count]])
            h, (r, z, n) = before[rows], gates[rows].chunk(3, dim=1)
            dr, dz, dn = of_input[rows].chunk(3, dim=1)
            torch.mul(dh * (1 - z), 1 - n * n, out=dn)
            torch.mul(dh * (h - n), z * (1 - z), out=dz)
            torch.mul(dn * candidate[rows], r * (1 - r), out=dr)
            of_state[rows] = of_input[rows]
            of_state[rows].chunk(3, dim=1)[2].mul_(r)
            dh = torch.addmm(dh * z, of_state[rows], w_h)
        dx = of_input @ w_x if ctx.needs_input_grad[0] else None
        return dx, None, of_input.T @ x, of_state.T @ before, of_input.sum(0), of_state.sum(0)


def _steps(sizes: list[int]) -> list[tuple[slice, int]]:
    """Return the rows of each step, and how many they are."""
    steps, start = [], 0
    for count in sizes:
        steps.append((slice(start, start + count), count))
        start += count
    return steps
