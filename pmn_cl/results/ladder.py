"""The paper's ladders of modules, as tables of results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pmn_cl.results import paper
from pmn_cl.results.result import Result, finals
from pmn_cl.results.statistics import Interval, Paired, interval, paired

TABLES = {
    "M_rel (Table 1)": ["M_rel0", "M_rel1"],
    "M_cap (section 4.1)": ["M_cap0", "M_cap1"],
    "M_cnt (Table 2)": ["M_cnt0", "M_cnt1", "M_cnt2"],
    "M_vqa (Table 3)": [f"M_vqa{n}" for n in range(6)],
    "M_vqa without a warm start": [
        *(f"M_vqa{n}" for n in range(3)),
        *(f"M_vqa{n} no copies" for n in (3, 4, 5)),
        "M_vqa5",
    ],
    "More parameters": ["M_vqa0", "M_vqa0 matched"],
    "Synthetic questions": ["M_cnt2", "M_cnt2 synthetic data"],
    "M_cnt without supervision of [b, r]": ["M_cnt0", "M_cnt2 no [b, r]", "M_cnt2"],
    "More data": ["M_vqa1", "M_vqa1 extra data"],
    "M_vqa5 otherwise": [
        "M_vqa5",
        *(
            f"M_vqa5 {otherwise}"
            for otherwise in (
                *("equal gates", "random children", "shuffled children", "fine-tuned"),
                *("[b, r]", "no [b, r]", "no copies", "top-1", "top-2", "top-3"),
            )
        ),
    ],
}


@dataclass(frozen=True)
class RungRow:
    """A rung of a table."""

    name: str
    score: Interval  # over seeds, on its last task
    seeds: int
    gain: Paired | None  # over the table's first rung
    paper: str


def tables(results: Sequence[Result], split: str = "test") -> dict[str, list[RungRow]]:
    """Return the tables of which some rung of their own, in no table before, has been run."""
    rungs: dict[str, list[Result]] = {}
    for result in results:
        if result.status == "completed" and result.run.rung is not None:
            rungs.setdefault(result.run.rung, []).append(result)
    by_seed = {rung: found for rung, some in rungs.items() if (found := finals(some, split))}
    shown: dict[str, list[str]] = {}
    for title, names in TABLES.items():
        before = {name for others in shown.values() for name in others}
        if any(name in by_seed and name not in before for name in names):
            shown[title] = names
    return {
        title: [
            RungRow(
                name,
                interval(list(by_seed[name].values())),
                len(by_seed[name]),
                paired(by_seed[name], by_seed.get(names[0], {})) if name != names[0] else None,
                paper.RUNGS.get(name, ""),
            )
            for name in names
            if name in by_seed
        ]
        for title, names in shown.items()
    }
