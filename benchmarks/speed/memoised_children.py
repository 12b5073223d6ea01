"""Training M_vqa5 with what frozen children remember, against asking them anew every time.

With the paper's live query, M_cnt has to count each time; with its own question encoder, a frozen
M_cnt is remembered whole. At the end, as streams have it: ten questions about a scene come
together, and what depends on the scene is worked out once. ``--profile`` shows what remains.
"""

from __future__ import annotations

import sys

import torch
from modules import VQA0, VQA5, RandomQuestions, RandomScenes, Training, network, plan
from timing import compare, report

from pmn_cl.modules.runtime.memory import Memory
from pmn_cl.modules.sizes import DEPARTURES
from pmn_cl.strategy.training import TRAINING

_STEPS = 50


def main(size: str, own_question: bool, steps: int) -> list[bool]:
    torch.manual_seed(0)
    departures = DEPARTURES[size].model_copy(update={"own_question": own_question})
    made = plan(size, departures)
    questions = RandomQuestions(size, RandomScenes(size))
    remembering, asking, base = (
        Training(network(made, calls, memory), questions)
        for calls, memory in ((VQA5, Memory()), (VQA5, None), (VQA0, None))
    )
    curves = [[training.step() for _ in range(steps)] for training in (remembering, asking)]
    difference = max(abs(a - b) / abs(b) for a, b in zip(*curves, strict=True))
    turns = 9 if size == "small" else 3
    faster = compare(asking.step, remembering.step, turns=turns)
    dearer = compare(remembering.step, base.step, turns=turns)
    how, least, most = ("own question", 3, 2) if own_question else ("live query", 2, 4)
    if "--profile" in sys.argv:
        _profile(remembering)
    return [
        report(
            f"M_vqa5 without / with memory, {size}, {how}",
            faster.ratio,
            f"at least {least}, same losses to 1e-4 over {steps} steps",
            faster.ratio >= least and difference < 1e-4,
            f"{1e3 * faster.ours:.0f} and {1e3 * faster.plain:.0f} ms, "
            f"losses differ by {difference:.1e}",
        ),
        report(
            f"M_vqa5 with memory / M_vqa0, {size}, {how}",
            dearer.ratio,
            f"at most {most}",
            dearer.ratio <= most,
            f"{1e3 * dearer.ours:.0f} and {1e3 * dearer.plain:.0f} ms",
        ),
    ]


def by_scene(size: str) -> bool:
    """Compare a step of M_vqa5 with one of M_vqa0, on batches that hold scenes whole."""
    torch.manual_seed(0)
    made = plan(size, DEPARTURES[size].model_copy(update={"own_question": True}))
    questions = RandomQuestions(size, RandomScenes(size, 256), per_scene=10)
    five, none = (
        Training(network(made, calls, memory), questions, TRAINING[size]["vqa"].batch_size)
        for calls, memory in ((VQA5, Memory()), (VQA0, None))
    )
    for _ in range(20):  # until all is remembered
        five.step()
    dearer = compare(five.step, none.step, turns=9 if size == "small" else 3)
    return report(
        f"M_vqa5 with memory / M_vqa0, {size}, own question, by scene",
        dearer.ratio,
        "at most 1.6",
        dearer.ratio <= 1.6,
        f"{1e3 * dearer.ours:.0f} and {1e3 * dearer.plain:.0f} ms",
    )


def _profile(training: Training) -> None:
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU]) as seen:
        training.step()
    table = seen.key_averages().table(sort_by="self_cpu_time_total", row_limit=10)
    print("\n".join(line[:90] for line in table.splitlines()))


if __name__ == "__main__":
    torch.set_num_threads(1)
    sizes = [size for size in ("small", "paper") if size in sys.argv] or ["small", "paper"]
    reached = [
        goal
        for size in sizes
        for own_question in (False, True)
        for goal in main(size, own_question, _STEPS if size == "small" else 3)
    ]
    reached += [by_scene(size) for size in sizes]
    sys.exit(not all(reached))
