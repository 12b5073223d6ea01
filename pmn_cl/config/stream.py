"""From a stream.yaml to its spec.

``load_spec`` reports every mistake of a file at once, each as
``file:line:column: path: what was found, what was expected; did you mean …?``.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from pmn_cl import registry
from pmn_cl.config.checks import check_names
from pmn_cl.config.names import call_lists, options_of, task_class, world_class
from pmn_cl.config.problems import problems_of, shown
from pmn_cl.config.searches import Searches, read_searches
from pmn_cl.config.short_forms import as_written, written_out
from pmn_cl.config.spec import BenchmarkSpec, StrategySpec
from pmn_cl.config.yaml_source import Problem, read_yaml
from pmn_cl.errors import UserError, did_you_mean
from pmn_cl.strategy.base import StrategyOptions

_STREAMS = Path(__file__).parents[2] / "benchmarks" / "streams"


def find_stream(name: str | Path) -> tuple[Path, bool]:
    """Return the file that is meant and whether it is one of the shipped streams.

    A name that is no file here is looked up among the streams that come with pmn-bench.
    """
    path = Path(name)
    if os.path.exists(path):  # unlike Path.exists, False for a name that no file can have
        return path, False
    shipped = shipped_streams()
    for known in (path.name, f"{path.name}.yaml"):
        if known in shipped and path.parent == Path():
            return shipped[known], True
    raise UserError(
        f"{name}: no such file, and no shipped stream of that name "
        f"({', '.join(shipped)}){did_you_mean(path.name, shipped)}"
    )


def shipped_streams() -> dict[str, Path]:
    """Return the streams that come with pmn-bench, by file name."""
    return {path.name: path for path in sorted(_STREAMS.glob("*.yaml"))}


def load_spec(path: str | Path, *, tuned: bool = True, also: Sequence[str] = ()) -> BenchmarkSpec:
    """Read and check a stream's YAML; raise a ``UserError`` that lists every mistake.

    What a search has chosen is left out where it is not wanted: by a search. ``also`` names
    strategies that the stream is to have in any case.
    """
    path = Path(path)
    source = read_yaml(path)
    registry.search_last(path.parent)  # a user's own worlds, tasks and strategies
    if not isinstance(source.data, dict):
        found = "nothing" if source.data is None else shown(source.data)
        keys = ", ".join(BenchmarkSpec.model_fields)
        source.refuse([Problem((), f"found {found}, expected a mapping with the keys {keys}")])
    data = written_out(source.data)
    spec, problems = None, []
    try:
        spec = BenchmarkSpec.model_validate(data)
    except ValidationError as error:
        problems = problems_of(error, BenchmarkSpec, ())
    problems += check_names(data)
    source.refuse([replace(p, loc=as_written(p.loc, source.data)) for p in problems])
    assert spec is not None
    return _resolved(with_strategies(spec, also), path.parent, tuned)


def with_strategies(spec: BenchmarkSpec, names: Sequence[str]) -> BenchmarkSpec:
    """Return a stream with these strategies, too: those that it does not name as they are."""
    named = [strategy.name for strategy in spec.strategies]
    unnamed = [name for name in dict.fromkeys(names) if name not in named]
    for name in unnamed:
        _check_usual(name, spec)
    more = [spec.of_study(name) for name in unnamed]
    return spec.model_copy(update={"strategies": [*spec.strategies, *more]})


def _check_usual(name: str, spec: BenchmarkSpec) -> None:
    """Refuse a strategy that is not known, is nothing without options, or cannot go through."""
    named = [strategy.name for strategy in spec.strategies]
    if name not in registry.STRATEGIES:
        others = [known for known in registry.STRATEGIES if known not in named]
        raise UserError(
            f"--strategy {name}: the stream names {', '.join(named)}; there are also "
            f"{', '.join(others)}{did_you_mean(name, [*named, *others])}"
        )
    sizes = {str(s.options["size"]) for s in spec.strategies if "size" in s.options}
    if sizes:
        raise UserError(
            f"--strategy {name}: the stream gives networks a size ({', '.join(sorted(sizes))}); "
            "name it in the stream, with a size of its own"
        )
    try:
        options = options_of(StrategySpec(name=name))
        if isinstance(options, StrategyOptions):
            options.check_stream(
                world_class(spec.world), [task_class(t.task).name for t in spec.tasks]
            )
    except ValidationError as error:
        raise UserError(
            f"--strategy {name}: needs options ({error.errors()[0]['msg']}); name it in the stream"
        ) from None


def parse_stream(data: dict[str, Any]) -> BenchmarkSpec:
    """Return the spec of a stream that is given as data, in any form that YAML may have."""
    return _resolved(BenchmarkSpec.model_validate(written_out(data)), Path())


def _resolved(spec: BenchmarkSpec, folder: Path, tuned: bool = True) -> BenchmarkSpec:
    """Return the spec with the paper's call list for tasks that have none, and what was tuned."""
    tasks = [
        item.model_copy(update={"calls": calls})
        for item, calls in zip(spec.tasks, call_lists(spec).values(), strict=True)
    ]
    strategies = spec.strategies
    if spec.tuned is not None and tuned:
        path = folder / spec.tuned
        searches = read_searches(path)
        searches.check_stream(spec, path)
        strategies = [_tuned(given, searches, path) for given in strategies]
    return spec.model_copy(update={"tasks": tasks, "strategies": strategies})


def _tuned(given: StrategySpec, searches: Searches, path: Path) -> StrategySpec:
    """Return a strategy with the options that a search has chosen, where it says none itself."""
    tuned = searches.tuned(given.name)
    taken = {n: v for n, v in tuned.chosen.items() if n not in given.options} if tuned else {}
    if tuned is None or not taken:
        return given
    tuned = tuned.model_copy(update={"chosen": taken})
    found = given.model_copy(update={"options": {**taken, **given.options}, "tuned": tuned})
    try:
        options_of(found)
    except ValidationError as error:
        said = error.errors()[0]["msg"]
        raise UserError(
            f"{path}: what was chosen for {given.name!r} does not fit: {said}"
        ) from None
    return found
