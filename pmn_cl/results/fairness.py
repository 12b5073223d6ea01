"""On what terms strategies are compared: what is the same for all, and what was searched."""

from __future__ import annotations

from collections.abc import Iterable

from pmn_cl.config.spec import TunedSpec

SAME = {
    "inputs": "regions, boxes and words of the same samples, in an order that seed and task decide",
    "questions": "PMN's word vectors and question encoder, of the same width",
    "budget": "the same samples seen of every new task (samples seen are in every result)",
    "training": "Adam; batch size, schedule, warm-up and clipping of the task; the samples of a "
    "scene come together; what a network has learned before rests for a tenth of the steps, then "
    "starts at a fifth of the rate",
    "losses": "rel: every box that fits, and a yes or no for each; cnt: distance of the expected "
    "count, and of the soft count of a map; vqa: one softmax over answers",
    "layers": "attention, trunks and MLPs start at the scale of their input; waves say where boxes "
    "are; plurals have their singulars' vectors; the question alone may answer",
    "curriculum": "the stream's, by task; none where all tasks are learned at once, which it harms",
    "selection": "the best epoch on the validation samples of the task; at once: of all tasks",
    "start": "batch sizes, epochs and rates as chosen for PMN's modules at the full budget",
}


def said_of_searches(tuned: Iterable[TunedSpec | None]) -> str:
    """Say in a sentence whether settings were searched, and how often for each method."""
    found = [one for one in tuned if one is not None]
    if not found:
        return "none: every method has the usual settings, or what its stream says"
    counts = sorted({one.trials for one in found})
    return (
        f"{' to '.join(map(str, dict.fromkeys((counts[0], counts[-1]))))} trials for each method, "
        "validation only, by the protocol in the table; without a search of its own a method has "
        "the rate that was chosen for what it builds on"
    )


def said_of_search(tuned: TunedSpec | None) -> tuple[str, str]:
    """Say how a method's settings were searched, and which were chosen."""
    if tuned is None:
        return "", ""
    chosen = ", ".join(f"{name} {value}" for name, value in tuned.chosen.items())
    edge = " (the edge of what was tried)" if tuned.at_edge else ""
    return f"{tuned.trials} of {tuned.method}, {tuned.protocol}", f"{chosen}{edge}"
