"""Method and data card: what was run on what, how fair it is, and every single run."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from statistics import fmean

from pmn_cl.registry import STRATEGY_SUMMARIES
from pmn_cl.results.fairness import SAME, said_of_search, said_of_searches
from pmn_cl.results.result import BASES, Result
from reports.blocks import Block, Commands, Facts, Row, Section, Table, Text, number
from reports.folder import Gathered
from reports.svg import clipped

_ALL = 100_000  # characters: a text that is shown whole


def card(found: Gathered) -> Section:
    """Tell the data, the tasks and what was the same for every strategy."""
    blocks: list[Block] = [Facts(_facts(found))]
    if found.field:
        blocks += [_tasks(found), Text("What is the same for every strategy:")]
        search = said_of_searches(result.run.strategy.tuned for result in found.field)
        blocks += [Facts([*SAME.items(), ("search", search)]), _fairness(found)]
    return Section("card", "Method and data card", blocks)


def _facts(found: Gathered) -> list[tuple[str, str]]:
    some = found.results
    versions: dict[str, set[str]] = {}
    for result in some:
        for package, version in result.versions.items():
            versions.setdefault(package, set()).add(version)
    started = sorted(result.started for result in some)
    return [
        ("streams", _listed(result.stream for result in some)),
        ("worlds", _listed(_world(result) for result in some)),
        ("data (digest)", _listed(result.data for result in some if result.data)),
        ("seeds", _listed(f"{seed}" for seed in sorted({result.seed for result in some}))),
        ("budget", _listed(f"{result.budget:g}%" for result in some)),
        ("fractions", _listed(f"{f:g}%" for f in sorted({result.fraction for result in some}))),
        (
            "threads, device",
            _listed(f"{r.run.stream.threads}, {r.device or 'not recorded'}" for r in some),
        ),
        ("code", _listed(result.revision or "unknown" for result in some)),
        ("frozen settings", found.frozen or "not written down"),
        ("started", f"{started[0]} to {started[-1]}" if started else ""),
        *((package, _listed(sorted(given))) for package, given in sorted(versions.items())),
    ]


def _world(result: Result) -> str:
    world = result.run.stream.world
    return json.dumps({"name": world.name, **world.options})


def _listed(texts: Iterable[str]) -> str:
    """Return different texts in the order in which they come."""
    found = list(dict.fromkeys(texts))
    more = f", … ({len(found)} in all)" if len(found) > 20 else ""
    return ", ".join(clipped(text, 200) for text in found[:20]) + more


def _tasks(found: Gathered) -> Table:
    first = found.field[0]
    splits = list(dict.fromkeys([*first.samples, *first.constant]))
    rows = []
    for j, (task, metric) in enumerate(zip(first.tasks, first.metrics, strict=False)):
        counts = [_at(first.samples.get(split, []), j, ",") for split in splits]
        floors = [_at(first.constant.get(split, []), j, ".3f") for split in first.constant]
        rows.append(Row([task, metric, *counts, *floors]))
    columns = ["task", "primary metric", *(f"samples, {split}" for split in splits)]
    columns += [f"constant answer, {split}" for split in first.constant]
    return Table("Tasks, in the order in which they are learned", columns, rows)


def _at(values: Sequence[float | None], place: int, form: str) -> str:
    return number(values[place], form) if place < len(values) else ""


def _fairness(found: Gathered) -> Table:
    rows = [
        Row(_fair(found.label(name), some), found.number(name))
        for name, some in found.by_name.items()
    ]
    columns = ["strategy", "what it is", "sees", "samples seen", "parameters", "also supervised"]
    columns += ["trials", "chosen", "options, as given"]
    return Table("Fairness: what each was given and allowed to try", columns, rows)


def _fair(label: str, some: Sequence[Result]) -> list[str]:
    first = some[0]
    at_once = len(first.scores["test"]) == 1 < len(first.tasks)
    seen = [result.costs[-1].samples_seen for result in some if result.costs]
    supervised = first.options.get("supervise") if first.strategy not in BASES else None
    given = first.run.strategy.options
    return [
        label,
        STRATEGY_SUMMARIES.get(first.strategy, ""),
        "all tasks at once" if at_once else "one task at a time",
        f"{fmean(seen):,.0f}" if seen else "",
        f"{first.parameters['total'][-1]:,}",
        f"[b, r] of {', '.join(map(str, supervised))}" if supervised else "",
        *said_of_search(first.run.strategy.tuned),
        clipped(json.dumps(given, ensure_ascii=False), 300) if given else "",
    ]


def runs(found: Gathered) -> Section:
    """List every result, and what could not be read."""
    rows = []
    for result in found.results:
        error = f"{result.error.kind}: {result.error.message}" if result.error else ""
        name = result.name if result.name in found.looks else result.strategy
        cells = [clipped(text, 160) for text in (result.key, result.strategy, result.variant)]
        cells += [str(result.seed), f"{result.fraction:g}", result.status]
        cells += [number(_average(result)), f"{result.seconds:.0f}", error]
        rows.append(Row(cells, found.number(name)))
    columns = ["run", "strategy", "variant", "seed", "% of the data", "status", "average", "s"]
    blocks: list[Block] = [Table("All results", [*columns, "error"], rows)]
    whole = {look.label: name for name, look in found.looks.items() if look.label != name}
    if whole:
        blocks.append(Text("Names that are shown shortened above, in full:"))
        blocks.append(Facts([(label, clipped(name, _ALL)) for label, name in whole.items()]))
    if found.problems:
        blocks.append(Text("Files that could not be read:"))
        blocks.append(Facts([(str(n), clipped(p, 1000)) for n, p in enumerate(found.problems, 1)]))
    return Section("runs", "Runs", blocks)


def _average(result: Result) -> float | None:
    usable = result.tasks and all(
        len(r) == len(result.tasks) for r in result.scores.get("test", [])
    )
    return result.summary()["average"] if usable else None


def reproduce(found: Gathered) -> Section:
    """Say which commands make all of this again."""
    verify = "the path of any run"
    if found.done:
        verify = f"{found.shown_folder}/{clipped(found.done[0].key, 60)}"
    lines = [
        (found.command("run"), "the comparison; a run that is there already is not run again"),
        (found.command("ablate"), "the ablation ladder and the controls"),
        (found.command("sweep"), "the low-data curve"),
        (f"pmn-bench claims {found.shown_folder}", "the claims, as text or JSON"),
        (f"pmn-bench verify {verify}", "one run again from its record: the same to the bit?"),
        (found.commands()[0], "this page, from the results alone"),
    ]
    said = (
        "Results are named by all that decides them, so these commands make the same ones, with "
        "the versions and the code of the card. The YAML file is the one whose name: is that of "
        "the stream; claims.yaml and others come with pmn-bench."
    )
    return Section("reproduce", "How to reproduce it", [Text(said), Commands(lines)])
