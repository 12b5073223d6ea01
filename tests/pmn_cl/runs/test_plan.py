"""Which run comes next: none waits for a module while another could be started."""

from __future__ import annotations

from made_results import run_spec

from pmn_cl.config.spec import RunSpec
from pmn_cl.runs.plan import next_run


def run(strategy: str, seed: int = 0, reuse: str | None = "modules") -> RunSpec:
    return run_spec(strategy, seed=seed).model_copy(update={"reuse": reuse})


def order(runs: list[RunSpec], workers: int) -> list[str]:
    """Start runs that all take equally long."""
    waiting, running, started = list(runs), [], []
    while waiting:
        if len(running) == workers:
            running.pop(0)
        chosen = next_run(waiting, running)
        waiting.remove(chosen)
        running.append(chosen)
        started.append(f"{chosen.strategy.name} {chosen.seed}")
    return started


def test_runs_that_share_modules_are_not_started_together() -> None:
    names = ("pmn", "hard_sharing", "pnn", "independent", "parameter_matched", "executor")
    assert order([run(name) for name in names], workers=2) == [
        "pmn 0",
        "hard_sharing 0",
        "independent 0",  # as soon as pmn has ended, so that its modules are there for the next
        "pnn 0",
        "parameter_matched 0",
        "executor 0",
    ]


def test_seeds_share_nothing() -> None:
    runs = [run(name, seed) for name in ("pmn", "independent") for seed in (0, 1)]
    assert order(runs, workers=2) == ["pmn 0", "pmn 1", "independent 0", "independent 1"]


def test_who_has_to_wait_is_started_all_the_same() -> None:
    assert order([run("pmn"), run("independent")], workers=2) == ["pmn 0", "independent 0"]


def test_without_sharing_the_order_stays() -> None:
    names = ("hard_sharing", "pmn", "independent", "pnn")
    runs = [run(name, reuse=None) for name in names]
    assert order(runs, workers=2) == [f"{name} 0" for name in names]
