"""What is the same for every strategy."""

from __future__ import annotations

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
    "search": "validation only, development seeds: four trials or fewer at field.yaml's budget; "
    "docs/claims.md says what was tried for claims.yaml",
    "start": "batch sizes, epochs and rates as chosen for PMN's modules at the full budget",
}
