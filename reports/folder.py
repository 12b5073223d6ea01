"""What a folder of results holds, sorted by what it can be used for.

Results of `run`, `sweep` and `ablate` may lie in one folder, of several streams and settings,
finished or not. Nothing is refused: what cannot be compared with the rest is named instead.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import count
from pathlib import Path

from pmn_cl.claims.evidence import Grades
from pmn_cl.claims.table import FROZEN, JUDGEMENTS, read_frozen, read_grades
from pmn_cl.errors import UserError
from pmn_cl.explaining.records.faithfulness import Faithfulness, read_faithfulness
from pmn_cl.progress import ProgressCallback
from pmn_cl.results.compare import Comparison, Stat, compare
from pmn_cl.results.folder import JOURNAL, RESULT
from pmn_cl.results.result import Result, read_result
from pmn_cl.results.statistics import Interval, interval
from reports.svg import SeriesStyle, clipped

PMN = "pmn"  # what all others are compared with, where it is there
BASELINE = "independent"  # its modules, each of which learns alone
_DRAWN = 40  # strategies in figures: more cannot be told apart
# Each of these looks the same in every report; what is not among them comes after them.
_USUAL = (
    *(PMN, "hard_sharing", "independent", "hard_sharing_joint", "pnn", "multinet"),
    *("parameter_matched", "executor", "constant", "ewc", "lwf", "replay"),
    *("hard_sharing_modules", "multinet_joint", "si", "mas", "agem", "gem"),
    *("hard_sharing_cumulative", "multinet_frozen"),
)
_LABEL = 40  # characters: more would not fit anywhere


class Gathered:
    """The results of a folder: all of them, and those of them that each section is made from."""

    def __init__(
        self,
        folder: Path,
        results: Sequence[Result],
        *,
        problems: Sequence[str] = (),
        under_way: int = 0,
        grades: Sequence[Grades] = (),
        frozen: str | None = None,
        faithfulness: Mapping[str, Faithfulness] | None = None,
    ) -> None:
        self.folder, self.results = folder, results
        self.problems, self.under_way = problems, under_way  # unreadable files; no result yet
        self.grades, self.frozen = grades, frozen
        self.faithfulness = faithfulness or {}  # of explanations, by the key of the run
        self.done = [result for result in results if _whole(result)]
        plain = [r for r in self.done if r.run.study == "run"]
        plain.sort(key=lambda result: (result.name != PMN, result.strategy != PMN))
        sized = [result for result in plain if result.parameters.get("total")]
        self.field = list(told_apart(largest(sized, comparable)))  # of `run`, to be compared
        self.left_out = len(plain) - len(self.field)  # other tasks, data, fraction or budget
        self.sweep = [r for r in self.done if r.run.study == "sweep"]
        self.ablation = [r for r in self.done if r.run.study == "ablate"]
        names = [result.name for result in self.field] + [r.strategy for r in self.sweep]
        self.looks = _looks(dict.fromkeys(names))
        self._comparisons: dict[tuple[str, Stat], Comparison | None] = {}

    @property
    def tasks(self) -> list[str]:
        """Return the tasks of the runs that are compared."""
        return self.field[0].tasks if self.field else []

    @cached_property
    def by_name(self) -> dict[str, list[Result]]:
        """Return the runs that are compared, by strategy and variant."""
        return grouped(self.field, lambda result: result.name)

    @property
    def drawn(self) -> list[str]:
        """Return the strategies that figures show; tables have all of them."""
        return list(self.looks)[:_DRAWN]

    @property
    def not_drawn(self) -> str:
        """Say how many strategies are in tables alone."""
        more = len(self.looks) - _DRAWN
        return f" {more} more strategies are in the tables alone." if more > 0 else ""

    def metric(self, task: str) -> str:
        """Return the primary metric of a task."""
        return dict(zip(self.tasks, self.field[0].metrics, strict=False)).get(task, "score")

    def comparison(self, split: str, stat: Stat = "mean") -> Comparison | None:
        """Return the strategies side by side, as far as they were scored on a split."""
        if (split, stat) not in self._comparisons:
            scored = [result for result in self.field if result.scores.get(split)]
            reference = PMN if any(result.name == PMN for result in scored) else None
            found = compare(scored, split=split, reference=reference, stat=stat) if scored else None
            self._comparisons[split, stat] = found
        return self._comparisons[split, stat]

    def label(self, name: str) -> str:
        """Return a name as it is shown: the whole of it, unless it is very long."""
        return self.looks[name].label if name in self.looks else clipped(name, _LABEL)

    def shortened(self, sentence: str) -> str:
        """Return a sentence with very long names as they are shown."""
        for name, look in self.looks.items():
            if len(name) > _LABEL:
                sentence = sentence.replace(name, look.label)
        return sentence

    def competes(self, name: str) -> bool:
        """Whether a strategy is a way to learn the stream, and not there to compare with."""
        return all(result.competes for result in self.by_name.get(name, []))

    def number(self, name: str) -> int | None:
        """Return by which number the page hides a strategy."""
        return self.looks[name].number if name in self.looks else None

    def command(self, verb: str) -> str:
        """Return how results of this folder are made by `run`, `sweep` or `ablate`."""
        most = Counter(result.stream for result in self.results).most_common(1)
        stream = f"{clipped(most[0][0], _LABEL)}.yaml" if most else "stream.yaml"
        return f"pmn-bench {verb} {shlex.quote(stream)} --out {self.shown_folder}"

    def commands(self, *verbs: str) -> list[str]:
        """Return how a figure is made: its results, then this page."""
        page = f"pmn-bench report {self.shown_folder}"
        return [*(self.command(verb) for verb in verbs), page]

    @property
    def shown_folder(self) -> str:
        """Return the folder as it is typed in a shell."""
        return shlex.quote(str(self.folder))


def read_folder(folder: Path, progress: ProgressCallback | None = None) -> Gathered:
    """Read all results of a folder, and of the folders of several commands inside it."""
    if not folder.is_dir():
        raise UserError(f"{folder}: no such folder of results; `pmn-bench run STREAM` makes one")
    paths = sorted(folder.glob(f"*/{RESULT}"))
    paths += [p for p in sorted(folder.glob(f"*/*/{RESULT}")) if not _inside_a_run(p)]
    results, problems = [], []
    faithfulness: dict[str, Faithfulness] = {}
    for number, path in enumerate(paths, start=1):
        try:
            results.append(read_result(path))
            measured = read_faithfulness(path.parent)
            if measured is not None and measured.weights in results[-1].weights[-1:]:
                faithfulness[results[-1].key] = measured  # of what this run has learned
        except UserError as error:
            problems.append(str(error))
        if progress is not None:
            progress(number, len(paths))
    under_way = [p for p in folder.glob(f"*/{JOURNAL}") if not p.with_name(RESULT).exists()]
    if not paths and not under_way:
        raise UserError(
            f"{folder}: no results in this folder; `pmn-bench run STREAM --out {folder}` makes some"
        )
    grades: list[Grades] = []
    frozen = None
    try:
        grades = read_grades(folder / JUDGEMENTS)
        frozen = read_frozen(folder / FROZEN)
    except UserError as error:
        problems.append(str(error))
    return Gathered(
        *(folder, results),
        problems=problems,
        under_way=len(under_way),
        grades=grades,
        frozen=frozen,
        faithfulness=faithfulness,
    )


def _inside_a_run(path: Path) -> bool:
    return (path.parent.parent / RESULT).exists()


def _whole(result: Result) -> bool:
    """Return whether a run was completed and its record has what comparing takes."""
    tasks = len(result.tasks)
    return (
        result.status == "completed"
        and tasks > 0
        and bool(result.scores.get("test"))
        and all(len(result.constant.get(split, [])) == tasks for split in result.scores)
        and all(
            len(rows) in (0, 1, tasks) and all(len(row) == tasks for row in rows)
            for rows in result.scores.values()
        )
    )


def comparable(result: Result) -> Hashable:
    """Return what runs must have in common to be compared."""
    return result.data, result.budget, result.fraction, tuple(result.tasks)


def grouped(results: Iterable[Result], key: Callable[[Result], str]) -> dict[str, list[Result]]:
    """Return results by something that they have, in the order in which it first comes."""
    found: dict[str, list[Result]] = {}
    for result in results:
        found.setdefault(key(result), []).append(result)
    return found


def largest(results: Sequence[Result], key: Callable[[Result], Hashable]) -> list[Result]:
    """Return those of the results that have most in common with the others."""
    most = Counter(map(key, results)).most_common(1)
    return [result for result in results if key(result) == most[0][0]] if most else []


def told_apart(results: Iterable[Result]) -> Iterator[Result]:
    """Give every further setting of a name a variant of its own: their seeds cannot be averaged."""
    seen: Counter[Hashable] = Counter()
    places: dict[str, dict[Hashable, int]] = {}
    for result in results:
        run = (result.name, result.settings, result.seed)
        setting = (run[1], seen[run])
        seen[run] += 1
        known = places.setdefault(result.name, {})
        number = known.setdefault(setting, len(known) + 1)
        variant = f"{result.variant} settings {number}".strip()
        yield result if number == 1 else result.labelled(variant)


def _looks(names: Iterable[str]) -> dict[str, SeriesStyle]:
    """Give each name a look, with a label that no other has."""
    found: dict[str, SeriesStyle] = {}
    taken: Counter[str] = Counter()
    fixed, others = {name: n for n, name in enumerate(_USUAL)}, count(len(_USUAL))
    for name in names:
        number = fixed[name] if name in fixed else next(others)
        label = clipped(name, _LABEL)
        taken[label] += 1
        if taken[label] > 1:
            label = f"{label} #{taken[label]}"
        found[name] = SeriesStyle(number, label)
    return found


# --- means over seeds --------------------------------------------------------------------


def mean(values: Iterable[float | None]) -> Interval | None:
    """Return the mean over seeds with its interval; None as soon as one is missing."""
    listed = list(values)
    known = [value for value in listed if value is not None]
    return interval(known) if known and len(known) == len(listed) else None


def mean_matrix(some: Sequence[Result], split: str = "test") -> list[list[Interval | None]]:
    """Return R over seeds."""
    matrices = [result.matrix(split) for result in some]
    tasks = range(len(some[0].tasks))
    return [[mean(matrix[i][j] for matrix in matrices) for j in tasks] for i in tasks]
