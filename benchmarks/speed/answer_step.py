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

_T = 2  # steps of M_vqa


def products() -> list[tuple[int, int, int, bool]]:
    """Return rows, inputs, outputs of every linear map, and whether inputs need a gradient."""
    answers, (boxes, d), h = COUNTS["paper"]["answers"], REGIONS["paper"], 512
    words = WORDS["paper"]
    once = [(BATCH * words, 300, 3 * h, True), (BATCH * boxes, d, h, False), (BATCH, h, h, True)]
    once += [(BATCH, h, 3 * h, True)] * (words + 2)  # the encoder's GRU, and I's
    each = [(BATCH, h, h, True)] * 2  # f of Ω, and R
    each += [(BATCH, d, h, True), (BATCH, h, h, True)]  # Δ
    each += [(BATCH, h, 3 * h, True)] * 2  # U
    each += [(BATCH, h, h, True)] * 3 + [(BATCH, h, answers, True)]  # Ψ
    return once + each * _T


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
            x.T @ g
            if needed:
                g @ w.T

    timed = compare(training.step, multiply, turns=7)
    gflop = sum((3 if needed else 2) * 2 * n * i * o for n, i, o, needed in products()) / 1e9
    print(
        f"M_vqa0 step / its matrix products, paper size: {timed.ratio:.2f}; "
        f"{1e3 * timed.ours:.0f} and {1e3 * timed.plain:.0f} ms, {gflop:.0f} GFLOP"
    )


if __name__ == "__main__":
    main()
    sys.exit(0)
