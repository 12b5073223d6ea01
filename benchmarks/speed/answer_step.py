"""A training step of M_vqa0 at the paper's size against its matrix products alone.

The products are those of the step's linear layers, forward and backward; the rest is reading,
the GRU's gates, attention's sums, the loss over all answers, and Adam. One thread.
"""

from __future__ import annotations

import sys

import torch
from modules import (
    BATCH,
    COUNTS,
    REGIONS,
    VQA0,
    WORDS,
    RandomQuestions,
    RandomScenes,
    Training,
    network,
    plan,
)
from timing import compare

from strategies.operations import OperationCounter

_T = 2  # steps of M_vqa


def products() -> list[tuple[int, int, int, int]]:
    """Return rows, inputs, outputs of every linear map, and how many products it takes.

    Three where weights and inputs need a gradient, two where only the weights do, one where nothing
    does: nobody reads the state that the last step's U makes.
    """
    answers, (boxes, d), h = COUNTS["paper"]["answers"], REGIONS["paper"], 512
    words = WORDS["paper"]
    once = [(BATCH * words, 300, 3 * h, 3), (BATCH * boxes, d, h, 2), (BATCH, h, h, 3)]
    once += [(BATCH, h, 3 * h, 3)] * (words + 1)  # the encoder's GRU, and I's
    once += [(BATCH, h, 3 * h, 2)]  # of I's first state, which is 0
    each = [(BATCH, h, h, 3)] * 2  # f of Ω, and R
    each += [(BATCH, d, h, 3), (BATCH, h, h, 3)]  # Δ
    each += [(BATCH, h, h, 3)] * 3 + [(BATCH, h, answers, 3)]  # Ψ
    state = [(BATCH, h, 3 * h, 3)] * 2 * (_T - 1) + [(BATCH, h, 3 * h, 1)] * 2  # U
    return once + each * _T + state


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    training = Training(
        network(plan("paper"), VQA0, None), RandomQuestions("paper", RandomScenes("paper", 256))
    )
    operands = [
        (torch.randn(n, i), torch.randn(i, o), torch.randn(n, o), needed)
        for n, i, o, needed in products()
    ]

    def multiply() -> None:
        for x, w, g, needed in operands:
            x @ w
            if needed > 1:
                x.T @ g
            if needed > 2:
                g @ w.T

    with OperationCounter() as counted:
        training.step()
    timed = compare(training.step, multiply, turns=7)
    gflop = sum(needed * 2 * n * i * o for n, i, o, needed in products()) / 1e9
    print(
        f"M_vqa0 step / its matrix products, paper size: {timed.ratio:.2f}; "
        f"{1e3 * timed.ours:.0f} and {1e3 * timed.plain:.0f} ms, "
        f"{gflop:.1f} GFLOP by hand, {counted.operations / 1e9:.1f} counted "
        f"({counted.operations / 1e9 / gflop - 1:+.1%})"
    )


if __name__ == "__main__":
    main()
    sys.exit(0)
