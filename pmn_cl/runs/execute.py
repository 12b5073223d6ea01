"""One run, from its spec to its record. Knows nothing of other runs.

Importing this file is cheap: torch comes with the first run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.stream import Stream
from pmn_cl.config.names import options_of, strategy_class
from pmn_cl.config.spec import PROBE, RunSpec
from pmn_cl.errors import UserError
from pmn_cl.files import storing
from pmn_cl.provenance import code_revision, versions
from pmn_cl.results.folder import LEARNED
from pmn_cl.results.result import Result
from pmn_cl.runs.checkpoint import Checkpoint, Checkpoints, Keeper
from pmn_cl.runs.continual import ContinualEvaluation
from pmn_cl.runs.floors import constant_scores, family_floors
from pmn_cl.runs.journal import Journal
from pmn_cl.runs.record import curve_point, result_of, write_epoch
from pmn_cl.runs.sharing import Sharing
from pmn_cl.strategy.base import Experience, Strategy, TrainingProgress
from pmn_cl.strategy.matching import Match, matched_options_for


def make_strategy(
    run: RunSpec,
    experiences: Sequence[Experience],
    *,
    device: str = "cpu",
    on_progress: Callable[[TrainingProgress], None] | None = None,
) -> Strategy:
    """Return the strategy of a run, ready for its first experience."""
    found = matched(run, experiences)
    strategy = strategy_class(run.strategy.name)(
        options=found.options,
        seed=run.seed,
        device=device,
        budget=run.stream.budget,
        on_progress=on_progress,
    )
    if run.strategy.matched_to is not None:
        strategy.matched_ratio = found.ratio
    strategy.expect(experiences)
    return strategy


def matched(run: RunSpec, experiences: Sequence[Experience]) -> Match:
    """Return the options of the strategy; one that is matched to another gets its size."""
    given, other = run.strategy, run.strategy.matched_to
    options = options_of(given)
    if other is None:
        return Match(options, 1)
    others = {} if run.matched is None else {other: options_of(run.matched)}
    by = given.matched_by
    return matched_options_for(given.name, options, other, experiences, others, by)


def carry_out(
    run: RunSpec,
    folder: Path,
    *,
    cache: Path | None = None,
    device: str = "cpu",
    every: float = 60.0,
    stop: Callable[[], bool] = lambda: False,
    on_progress: Callable[[TrainingProgress], None] | None = None,
) -> Result:
    """Learn the stream, and score all that was learned after every experience.

    What was kept in the folder when the run was cut off is taken up again.
    """
    import torch

    torch.set_num_threads(run.stream.threads)
    stream = Stream.open(run.stream, run.seed, cache=cache)
    size = stream.store.path.stat().st_size
    experiences = stream.as_avalanche().streams
    training, validation = list(experiences["train"]), list(experiences["val"])
    checkpoints = Checkpoints(folder, every)
    keeper = Keeper(checkpoints, stop)
    journal = Journal(folder)

    def report(progress: TrainingProgress) -> None:
        if progress.score is not None:  # an epoch has ended
            write_epoch(journal, progress.task, curve_point(progress))
            keeper.keep(strategy)
        if on_progress is not None:
            on_progress(progress)

    strategy = make_strategy(run, training, device=device, on_progress=report)
    every_so_often = None if run.evaluate_at_end else run.stream.evaluate_every
    inside = ContinualEvaluation(
        every_so_often, strategy, experiences.get(PROBE, []), journal, keeper
    )

    def after_step() -> None:
        keeper.steps += 1
        inside.after_step()
        keeper.after_step(strategy)

    strategy.on_step = after_step
    sharing = Sharing(strategy, keeper, journal, on_progress)
    if run.reuse is not None:
        strategy.reuse(Path(run.reuse), sharing.wait)
    phases = _phases(strategy, training, validation)
    kept = checkpoints.read()
    _check_same(run, journal, stream.store.digest, kept)
    if kept is not None:
        strategy.restore(kept.state, [e for learned, _ in phases[: kept.done] for e in learned])
        keeper.go_on_from(kept)
        if on_progress is not None and kept.done < len(phases):
            on_progress(_going_on(phases[kept.done][0][0].task.name, keeper.steps))
    journal.write("started", device=device, **_facts(run, strategy, experiences))
    for learned, validation_of in phases[keeper.done :]:
        keeper.between()
        sharing.begin(learned[0].task.name)
        seen = [e.task.name for done, _ in phases[: keeper.done + 1] for e in done]
        inside.begin(seen)
        strategy.learn_all(learned, validation_of)
        keeper.clock.learned()
        sharing.settle()
        keeper.done += 1
        later = run.evaluate_at_end and keeper.done < len(phases)
        scores = {
            split: _scores(strategy, experiences[split], [] if later else seen, keeper)
            for split in _scored_splits(run, experiences)
        }
        _check_whole(stream.store.path, size)
        _write_experience(journal, strategy, learned, scores, keeper)
        keeper.begin_phase()
        keeper.keep(strategy)
    with storing(folder / LEARNED):
        strategy.save(folder / LEARNED)
    journal.write("completed")
    journal.close()
    return result_of(run, journal.events)


def _going_on(task: str, steps: int) -> TrainingProgress:
    where = f"from step {steps:,}" if steps else "from its beginning"
    return TrainingProgress(task, 1, 1, 0.0, None, 0, 1, note=f"goes on {where}")


def _check_same(run: RunSpec, journal: Journal, data: str, kept: Checkpoint | None) -> None:
    """Refuse to go on on other data, or from a state that the journal knows nothing of."""
    begun = [event for event in journal.events if event["event"] == "started"]
    if begun and begun[-1].get("key", run.key) != run.key:  # older ones have none
        raise UserError(
            f"{journal.path}: is the journal of {begun[-1]['key']}, expected that of {run.key}; "
            "run again to start it over"
        )
    before = [event["data"] for event in begun]
    if before and before[-1] != data:
        raise UserError(
            f"{journal.path}: the run began on data {before[-1][:12]}, but the world is now "
            f"{data[:12]}; --fresh starts it over"
        )
    done = sum(event["event"] == "experience" for event in journal.events)
    if kept is not None and kept.done > done:
        raise UserError(
            f"{journal.path}: knows {done} experiences, but the state kept beside it has "
            f"{kept.done}; --fresh starts the run over"
        )


def _check_whole(store: Path, size: int) -> None:
    """Refuse what was learned from a store that was cut: maps of its last page show zeros there.

    One that was deleted stays whole for who has opened it.
    """
    if store.exists() and store.stat().st_size != size:
        raise UserError(
            f"{store}: had {size} bytes when the run began, but has {store.stat().st_size} now; "
            "delete it, then run again: it is prepared anew and the run starts over"
        )


def _phases(
    strategy: Strategy, training: list[Experience], validation: list[Experience]
) -> list[tuple[list[Experience], list[Experience]]]:
    """Return the experiences that are learned together, with those for validation."""
    if strategy.at_once:
        return [(training, validation)]
    return [([a], [b]) for a, b in zip(training, validation, strict=True)]


def _scores(
    strategy: Strategy, experiences: Sequence[Experience], seen: Sequence[str], keeper: Keeper
) -> dict[str, dict[str, float]]:
    """Return all metrics of the tasks seen so far that a strategy has scores on."""
    found = {}
    for experience in experiences:
        if experience.task.name in seen:
            keeper.between()
            found[experience.task.name] = strategy.score(experience)
    return {task: metrics for task, metrics in found.items() if metrics}


def _write_experience(
    journal: Journal,
    strategy: Strategy,
    learned: Sequence[Experience],
    scores: dict[str, dict[str, dict[str, float]]],
    keeper: Keeper,
) -> None:
    """Write down what a phase brought; one that is in the journal already must be the same."""
    size = strategy.parameter_count()
    weights = strategy.digest()
    written = [event for event in journal.events if event["event"] == "experience"]
    if len(written) >= keeper.done:  # cut off before its state was kept, and learned again
        before = written[keeper.done - 1]
        if (before["weights"], before["scores"]) != (weights, scores):
            raise UserError(
                f"{journal.path}: {learned[-1].task.name!r} was learned again and came out "
                "otherwise; --fresh starts the run over"
            )
        return
    journal.write(
        "experience",
        tasks=[experience.task.name for experience in learned],
        scores=scores,
        parameters={"total": size.total, "trainable": size.trainable},
        cost={**keeper.clock.cost(), "samples_seen": strategy.samples_seen},
        **_work(strategy),
        weights=weights,
        details=strategy.details(),
        validation=dict(getattr(strategy, "validation_scores", {})),
    )


def _work(strategy: Strategy) -> dict[str, Any]:
    """Return what learning and answering took in operations, and what is kept in bytes."""
    found = strategy.operations_taken()
    return {
        "operations": {
            "learned": found.learned,
            "answer": dict(found.answer),
            "uncounted": dict(found.uncounted),
        },
        "bytes": strategy.kept_bytes(),
    }


def _scored_splits(run: RunSpec, experiences: dict[str, Any]) -> list[str]:
    """Return what a run is scored on after a phase: its splits, and the probe if there is one."""
    return [split for split in (*run.splits, PROBE) if split in experiences]


def _facts(run: RunSpec, strategy: Strategy, experiences: dict[str, Any]) -> dict[str, Any]:
    """Return what is known of a run before it learns."""
    training = experiences["train"]
    scored = _scored_splits(run, experiences)
    return {
        "key": run.key,
        "options": strategy.options.model_dump(mode="json"),
        "tasks": [experience.task.name for experience in training],
        "metrics": [experience.task.metric for experience in training],
        "samples": {split: [len(e.samples) for e in some] for split, some in experiences.items()},
        "constant": constant_scores(experiences, scored),
        "floors": family_floors(experiences, list(dict.fromkeys(["val", *scored]))),
        "matched": strategy.matched_ratio,
        "data": training[0].samples.store.digest,
        "versions": versions(),
        "revision": code_revision(),
    }
