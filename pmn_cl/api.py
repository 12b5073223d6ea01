"""The command line as functions, for notebooks and scripts: ``pmn_cl.run``, ``pmn_cl.Results``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from pmn_cl.config.spec import BenchmarkSpec
from pmn_cl.results.result import Result, read_results

if TYPE_CHECKING:
    import pandas as pd


class Results(Sequence[Result]):
    """The results of a folder, in order; as data frames by ``runs`` and ``scores``."""

    def __init__(self, folder: Path, results: Sequence[Result]) -> None:
        self.folder = folder
        self._results = list(results)

    @classmethod
    def read(cls, folder: str | Path) -> Results:
        """Return what is in a folder of results."""
        return cls(Path(folder), read_results(Path(folder)))

    def __len__(self) -> int:
        return len(self._results)

    def __getitem__(self, place: Any) -> Any:
        return self._results[place]

    def __repr__(self) -> str:
        return f"<{len(self)} results in {self.folder}>"

    def runs(self, split: str = "test") -> pd.DataFrame:
        """Return a row for each run: what it was, its measures, its size and cost."""
        import pandas as pd

        return pd.DataFrame([{**_named(r), **_measures(r, split)} for r in self])

    def scores(self) -> pd.DataFrame:
        """Return a row for each score: run, split, after which task, on which task, value."""
        import pandas as pd

        return pd.DataFrame([row for result in self for row in _scores(result)])


def run(
    stream: str | Path | BenchmarkSpec,
    *,
    strategies: Sequence[str] = (),
    seeds: Sequence[int] = (),
    out: str | Path | None = None,
    workers: int | None = None,
    device: str = "auto",
    fresh: bool = False,
    checkpoint_every: float = 60.0,
    tracking: str | None = None,
    cache: str | Path | None = None,
    quiet: bool = False,
) -> Results:
    """Learn a stream with its strategies and seeds, or go on with it, as ``pmn-bench run`` does.

    Ctrl-C (or the notebook's stop) ends it in order; what was done by then is returned.
    """
    from pmn_cl.studies.conduct import carry_through, open_world
    from pmn_cl.studies.request import RunRequest
    from pmn_cl.studies.run import plan_comparison

    request = RunRequest(
        stream=stream,
        strategies=tuple(strategies),
        seeds=tuple(seeds),
        out=None if out is None else Path(out),
        workers=workers,
        device=device,
        fresh=fresh,
        checkpoint_every=checkpoint_every,
        tracking=tracking,
        cache=None if cache is None else Path(cache),
    )
    plan = plan_comparison(request)
    open_world(plan.spec, request.cache)
    outcome = carry_through(plan, request, Console(quiet=quiet, highlight=False, markup=False))
    return Results(outcome.folder, outcome.results)


def _named(result: Result) -> dict[str, Any]:
    named = ("strategy", "variant", "seed", "fraction", "budget", "status")
    return {name: getattr(result, name) for name in named}


def _measures(result: Result, split: str) -> dict[str, Any]:
    last = (result.scores.get(split) or [[None] * len(result.tasks)])[-1]
    size = result.parameters["total"]
    return {
        **dict(zip(result.tasks, last, strict=True)),
        **result.summary(split),
        "parameters": size[-1] if size else None,
        "cpu_seconds": sum(cost.cpu_seconds for cost in result.costs),
        "seconds": result.seconds,
        "key": result.key,
    }


def _scores(result: Result) -> Iterator[dict[str, Any]]:
    for split in result.scores:
        for after, row in zip(result.tasks, result.matrix(split), strict=True):
            for task, value in zip(result.tasks, row, strict=True):
                if value is not None:
                    where = {"split": split, "after": after, "task": task}
                    yield {**_named(result), **where, "score": value, "key": result.key}
