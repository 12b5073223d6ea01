"""The question's GRU with a gradient of its own, against torch's packed GRU: learning a batch.

260 questions of 4 to 13 words at ``small``, the padded words packed in both.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import torch
from timing import compare, report
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence

from pmn_cl.modules.recurrent import last_states
from pmn_cl.modules.sizes import SIZES

_QUESTIONS, _LONGEST = 260, 13


def main() -> bool:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    sizes = SIZES["small"]
    gru = nn.GRU(sizes.word, sizes.hidden, batch_first=True)
    words = torch.randn(_QUESTIONS, _LONGEST, sizes.word, requires_grad=True)
    lengths = torch.randint(4, _LONGEST + 1, (_QUESTIONS,))

    def learn(last_of: Callable[[PackedSequence], Tensor]) -> None:
        packed = pack_padded_sequence(words, lengths, batch_first=True, enforce_sorted=False)
        last_of(packed).square().sum().backward()

    timed = compare(
        lambda: learn(lambda packed: last_states(gru, packed)),
        lambda: learn(lambda packed: gru(packed)[1][0]),
        turns=101,
    )
    return report(
        "questions read and learned, ours / torch's",
        timed.ratio,
        "at most 0.9",
        timed.ratio <= 0.9,
        f"{1000 * timed.ours:.2f} and {1000 * timed.plain:.2f} ms",
    )


if __name__ == "__main__":
    sys.exit(not main())
