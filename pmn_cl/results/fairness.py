"""What is the same for every strategy."""

from __future__ import annotations

SAME = {
    "inputs": "regions, boxes and words of the same samples, in an order that seed and task decide",
    "questions": "PMN's word vectors and question encoder, of the same width",
    "budget": "the same samples seen of every new task (samples seen are in every result)",
    "training": "Adam; batch size, schedule, warm-up and clipping of the task",
    "selection": "the best epoch on the validation samples of the task; at once: of all tasks",
    "search": "validation only, development seeds: four trials or fewer at field.yaml's budget; "
    "docs/claims.md says what was tried for claims.yaml",
    "start": "batch sizes, epochs and rates as chosen for PMN at the full budget",
}
