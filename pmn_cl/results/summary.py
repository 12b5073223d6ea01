"""What a stream's results mean, in three sentences, from the results alone.

They say what was measured and no more: with one seed, that it was one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import mean

from pmn_cl.results.bounds import JOINT
from pmn_cl.results.compare import SCRATCH
from pmn_cl.results.result import Result, finals, leading_split
from pmn_cl.results.statistics import as_range, paired, seeds_needed

_MATCHED = "parameter_matched"


def meaning(results: Sequence[Result]) -> Iterator[str]:
    """Yield what can be said of completed runs: of the last task, of the others, of chance."""
    known = [result for result in results if result.status == "completed" and result.scores]
    done = [result for result in known if result.competes]
    by_name: dict[str, list[Result]] = {}
    for result in done:
        by_name.setdefault(result.name, []).append(result)
    if len(by_name) > 1 and len({tuple(result.tasks) for result in done}) == 1:
        split = leading_split(done)
        ceiling = [result for result in known if result.bound == "ceiling"]
        yield _last_task(by_name, ceiling, split)
        forgotten = _forgetting(by_name, split)
        if forgotten:
            yield forgotten
        yield _chance(by_name, split)


def _last_task(by_name: dict[str, list[Result]], ceiling: Sequence[Result], split: str) -> str:
    """Say who is best at the last task, and what the others, floor and ceiling are worth."""
    task = next(iter(by_name.values()))[0].tasks[-1]
    by_seed = {name: finals(some, split) for name, some in by_name.items()}
    found = {name: mean(seeds.values()) for name, seeds in by_seed.items() if seeds}
    best = max(found, key=lambda name: found[name])
    said = f"{task} at the end: best {best} {found[best]:.3f}"
    known = {"pmn": "pmn", SCRATCH: "learned alone", _MATCHED: "alone with pmn's parameters"}
    known |= {JOINT: "all tasks at once"}
    for name, words in known.items():
        if name in found and name != best:
            said += f", {words} {found[name]:.3f}"
    constant = next(iter(by_name.values()))[0].constant[split][-1]
    said += f", the best constant answer {constant:.3f}" if constant is not None else ""
    most = finals(ceiling, split, task)
    return said + (f", programs on a wide probe {mean(most.values()):.3f}." if most else ".")


def _forgetting(by_name: dict[str, list[Result]], split: str) -> str:
    """Say who kept everything, and who lost most."""
    lost = {}
    for name, some in by_name.items():
        values = [v for result in some if (v := result.summary(split)["forgetting"]) is not None]
        if values:
            lost[name] = mean(values)
    if not lost:
        return ""
    kept = [name for name, value in lost.items() if value == 0]
    worst = max(lost, key=lambda name: lost[name])
    said = f"Forgetting: exactly 0 for {', '.join(kept)}" if kept else "Forgetting: none has 0"
    if lost[worst] > 0:
        said += f"; most for {worst}, {lost[worst]:.3f} on average over the earlier tasks"
    return said + "."


def _chance(by_name: dict[str, list[Result]], split: str) -> str:
    """Say how far the difference that matters most here can be trusted."""
    seeds = max(len(some) for some in by_name.values())
    if seeds == 1:
        return (
            "One seed, so there is no interval: differences may be chance. "
            "More seeds in the YAML, or --seed, add runs to these."
        )
    ours, theirs = ("pmn", SCRATCH) if {"pmn", SCRATCH} <= by_name.keys() else list(by_name)[:2]
    pair = paired(finals(by_name[ours], split), finals(by_name[theirs], split))
    if pair is None or pair.difference.low is None:
        return f"{seeds} seeds; `pmn-bench compare` has the intervals."
    low, high = pair.difference.low, pair.difference.high
    if low == high == 0:
        return f"{ours} and {theirs} came to the same on the last task, with every seed."
    sure = ""
    if low <= 0 <= (high or 0):
        needed = seeds_needed(pair)
        sure = f", so it may be chance: {needed or 'over 1,000'} seeds would show such a difference"
    return (
        f"{ours} minus {theirs} on the last task: {pair.difference.mean:+.3f} over {pair.seeds} "
        f"seeds, 95% interval {as_range(pair.difference)}{sure}."
    )
