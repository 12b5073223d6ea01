"""Which run of a folder is meant, and which one stands beside it. No torch here."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pmn_cl.errors import UserError, did_you_mean
from pmn_cl.results.folder import LEARNED
from pmn_cl.results.result import Result, read_results

PMN, BASELINE = "pmn", "independent"  # M_vqa with its callees; alone, with Ω and Δ


def completed_runs(folder: Path) -> list[Result]:
    """Return the completed runs of a folder that learned to answer questions."""
    found = read_results(folder)
    done = [result for result in found if result.status == "completed" and "vqa" in result.tasks]
    if not done:
        raise UserError(
            f"{folder}: has {len(found)} runs, none of which is completed and learned vqa; "
            "`pmn-bench run` a stream with vqa first"
        )
    return done


def find_run(folder: Path, name: str) -> Result:
    """Return the run of a key, of a key's unique beginning, or of a strategy and a seed."""
    done = completed_runs(folder)
    exact = [r for r in done if name in (r.key, f"{r.name} {r.seed}", f"{r.name}-{r.seed}")]
    found = exact or [result for result in done if result.key.startswith(name)]
    if len(found) == 1:
        return found[0]
    keys = [result.key for result in found or done]
    if found:
        raise UserError(f"{name!r} is the beginning of {len(keys)} runs: {_some(keys)}")
    raise UserError(
        f"{folder}: no completed run {name!r}, expected one of {_some(keys)}"
        f"{did_you_mean(name, keys)}"
    )


def usual_run(folder: Path) -> Result:
    """Return the first plain PMN of a folder that kept what it learned."""
    done = completed_runs(folder)
    plain = [r for r in done if _is_plain(r, PMN) and kept(folder, r)]
    if not plain:
        raise UserError(
            f"{folder}: no completed run of {PMN!r} that kept what it learned; name another by "
            f"--run: {_some([result.key for result in done])}"
        )
    return min(plain, key=lambda result: result.seed)


def baseline_of(folder: Path, result: Result) -> Result | None:
    """Return the attention baseline beside a run: base modules, same seed, data and training."""
    alike = [
        other
        for other in completed_runs(folder)
        if _is_plain(other, BASELINE) and kept(folder, other)
        if other.seed == result.seed and other.data == result.data
        if (other.fraction, other.budget) == (result.fraction, result.budget)
    ]
    return alike[0] if alike and result.strategy != BASELINE else None


def _is_plain(result: Result, strategy: str) -> bool:
    """Whether a run is of a strategy as the stream has it: no variant, no part of a study."""
    spec = result.run.strategy
    return spec.name == strategy and not spec.variant and result.run.study == "run"


def kept(folder: Path, result: Result) -> bool:
    """Whether what a run learned is there."""
    return (folder / result.key / LEARNED).is_dir()


def _some(keys: Sequence[str], most: int = 8) -> str:
    more = f" and {len(keys) - most} more" if len(keys) > most else ""
    return ", ".join(keys[:most]) + more
