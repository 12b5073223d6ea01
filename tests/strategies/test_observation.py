"""What validations show beside the score: by hand, and in one pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from baselines.hard_sharing import HardSharing, HardSharingJoint
from baselines.multinet import Multinet
from baselines.pnn import ProgressiveColumns
from pmn_cl.strategy.base import TrainingProgress
from strategies.observation import by_step, observe
from strategies.options import PmnOptions
from strategies.pmn import Progressive

Experiences = dict[str, dict[str, Any]]
ALL = ["obj", "att", "rel", "cnt", "vqa"]
TASKS = [
    "obj",
    "att",
    {"task": "rel", "calls": ["obj", "att"]},
    {"task": "cnt", "calls": ["obj", "att", "rel"]},
    {"task": "vqa", "calls": ["rel", "obj", "att", "cnt"]},
]


@pytest.fixture(scope="module")
def few(open_stream: Callable[..., Experiences]) -> Experiences:
    return open_stream(TASKS, fraction=10)


def learned(kind: Any, few: Experiences, **options: Any) -> tuple[Any, list[TrainingProgress]]:
    """Let a strategy learn all tasks for a moment; return it with its reports of validations."""
    seen: list[TrainingProgress] = []
    training = {task: {"epochs": 2} for task in ALL}
    chosen = kind.Options.model_validate({"training": training, **options})
    strategy = kind(options=chosen, budget=20, on_progress=seen.append)
    splits = ([few[split][task] for task in ALL] for split in ("train", "val"))
    strategy.learn_all(*splits)
    return strategy, [progress for progress in seen if progress.score is not None]


@pytest.fixture(scope="module")
def pmn(few: Experiences) -> tuple[Any, list[TrainingProgress]]:
    return learned(Progressive, few)


def test_steps_come_one_batch_after_another() -> None:
    # Batches of 2 and 1 samples, in two steps each: 10s are the second step.
    parts = [torch.tensor(part) for part in ([1, 2], [11, 12], [3], [13])]
    assert [step.tolist() for step in by_step(parts, 3)] == [[1, 2, 3], [11, 12, 13]]
    assert by_step(parts[:3], 3) == []  # a step is missing
    assert by_step([], 3) == []


def test_every_validation_of_questions_shows_families_attention_and_gates(
    pmn: tuple[Any, list[TrainingProgress]], few: Experiences
) -> None:
    strategy, reports = pmn
    assert [p.task for p in reports if p.seen is None] == []
    last = {progress.task: progress.seen for progress in reports}
    assert last["obj"] is not None and last["obj"].families == last["obj"].mass == {}
    families = set(few["val"]["vqa"].samples.store.names["families"])
    assert last["rel"] is not None and last["rel"].mass == {}
    assert set(last["rel"].families) == set(few["val"]["rel"].samples.store.names["relations"])
    assert last["cnt"] is not None and last["vqa"] is not None
    assert set(last["cnt"].families) == set(last["cnt"].mass) == {"count", "count_related"}
    assert set(last["cnt"].gates) == {"Ω", "rel"}
    assert set(last["vqa"].families) == set(last["vqa"].mass) == families
    assert tuple(last["vqa"].gates) == strategy.network["vqa"].call_list
    assert sum(last["cnt"].gates.values()) == pytest.approx(1, abs=1e-3)


def test_what_is_seen_is_what_the_network_does(
    pmn: tuple[Any, list[TrainingProgress]], few: Experiences
) -> None:
    strategy, _ = pmn
    experience = few["val"]["vqa"]
    scores, seen = observe(strategy, experience)
    assert scores == strategy.score(experience)
    columns, names = experience.samples.columns, experience.samples.store.names
    x, _ = experience.batches[np.arange(len(experience.batches))]
    with torch.no_grad(), strategy.network.attention_seen("vqa") as maps:
        right = strategy.network.eval()(x, "vqa").argmax(1).numpy() == columns["answers"][:, 0]
    for number, name in enumerate(names["families"]):
        asked = columns["family"] == number
        assert seen.families[name] == pytest.approx(right[asked].mean(), abs=1e-4)
        asked &= columns["about"].any(1)
        mass = [
            float(m[row][columns["about"][row]].sum()) for m in maps for row in asked.nonzero()[0]
        ]
        assert seen.mass[name] == pytest.approx(np.mean(mass), abs=1e-4)


@pytest.mark.parametrize("kind", [HardSharing, ProgressiveColumns, Multinet, HardSharingJoint])
def test_baselines_show_where_the_tasks_own_head_looks(kind: Any, few: Experiences) -> None:
    strategy, reports = learned(kind, few)
    experience = few["val"]["vqa"]
    last = reports[-1].seen
    assert last is not None and last.families.keys() == last.mass.keys() and last.gates == {}
    x, _ = experience.batches[np.arange(20)]
    with torch.no_grad(), strategy.model.attention_seen("vqa") as maps:
        strategy.model.eval()(x, "vqa")
    [seen] = maps  # once, though Multinet asks the heads of earlier tasks, too
    assert torch.allclose(seen.sum(1), torch.ones(20)) and not seen[~x["mask"]].any()


def test_watching_draws_no_random_numbers(
    pmn: tuple[Any, list[TrainingProgress]], few: Experiences
) -> None:
    torch.manual_seed(3)
    before = torch.get_rng_state(), np.random.get_state()[1].tolist()
    observe(pmn[0], few["val"]["vqa"])
    assert torch.equal(before[0], torch.get_rng_state())
    assert before[1] == np.random.get_state()[1].tolist()


def test_one_pass_is_enough(
    pmn: tuple[Any, list[TrainingProgress]], few: Experiences, monkeypatch: pytest.MonkeyPatch
) -> None:
    strategy, asked = pmn[0], []
    predict = strategy.predict
    monkeypatch.setattr(strategy, "predict", lambda e: asked.append(e) or predict(e))
    observe(strategy, few["val"]["vqa"])
    assert len(asked) == 1


def test_a_network_of_a_users_own_need_not_show_anything(few: Experiences) -> None:
    strategy = Progressive(options=PmnOptions())

    class Own(torch.nn.Module):
        """Answers 0 to every question."""

        def forward(self, x: Any, task: str, **more: Any) -> Any:
            return torch.zeros(len(x), 30)

    strategy.model = Own()
    _, seen = observe(strategy, few["val"]["vqa"])
    assert seen.mass == seen.gates == {} and seen.families
