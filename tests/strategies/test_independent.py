"""The base modules, each by itself, and the control that is as large as PMN."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from pmn_cl.errors import UserError
from pmn_cl.modules.task_module import digest_of
from strategies.independent import Independent, ParameterMatched
from strategies.options import PmnOptions
from strategies.pmn import Progressive

Experiences = dict[str, dict[str, Any]]
TASKS = ["obj", "att", "rel", "cap", "cnt", "vqa"]


def options(**changes: Any) -> PmnOptions:
    """One epoch for each task."""
    training = {task: {"epochs": 1} for task in TASKS}
    return PmnOptions.model_validate({"training": training, **changes})


def carry(strategy: Progressive, experiences: Experiences) -> Progressive:
    strategy.expect(list(experiences["train"].values()))
    for task, experience in experiences["train"].items():
        strategy.learn(experience, experiences["val"][task])
    return strategy


@pytest.fixture(scope="module")
def experiences(open_stream: Callable[..., Experiences]) -> Experiences:
    return open_stream(TASKS, 10.0)


@pytest.fixture(scope="module")
def learned(experiences: Experiences) -> Progressive:
    return carry(Independent(options=options(), seed=3), experiences)


@pytest.fixture(scope="module")
def matched(experiences: Experiences) -> Progressive:
    return carry(ParameterMatched(options=options()), experiences)


# Each task by itself.


@pytest.mark.parametrize("task", TASKS)
def test_a_task_is_learned_the_same_alone_and_in_a_stream(
    task: str, learned: Progressive, open_stream: Callable[..., Experiences]
) -> None:
    torch.manual_seed(11)  # what was drawn before must not matter
    alone = carry(Independent(options=options(), seed=3), open_stream([task], 10.0))
    assert digest_of(alone.network[task]) == digest_of(learned.network[task])


def test_the_order_of_the_stream_changes_nothing(
    learned: Progressive, open_stream: Callable[..., Experiences]
) -> None:
    other = carry(Independent(options=options(), seed=3), open_stream(TASKS[::-1], 10.0))
    for task in TASKS:
        assert digest_of(other.network[task]) == digest_of(learned.network[task])


def test_the_modules_are_pmns_with_empty_call_lists(
    learned: Progressive, open_stream: Callable[..., Experiences]
) -> None:
    """As the ladder's rungs rel0, cap0, cnt0 and vqa0 are written."""
    stream = open_stream([{"task": task, "calls": []} for task in TASKS], 10.0)
    pmn = carry(Progressive(options=options(), seed=3), stream)
    for task in TASKS:
        assert learned.network[task].callees == {}
        assert digest_of(learned.network[task]) == digest_of(pmn.network[task])


def test_base_modules_are_kept_and_taken_up_again(
    learned: Progressive, experiences: Experiences, tmp_path: Path
) -> None:
    learned.save(tmp_path)
    again = Independent(options=options(), seed=3)
    again.load(tmp_path, list(experiences["train"].values()))
    assert again.digest() == learned.digest()


# As large as PMN.


def parameters(strategy: Progressive) -> int:
    """Counted from what is kept, without the running statistics of batch norm."""
    statistics = ("running_mean", "running_var", "num_batches_tracked")
    kept = strategy.network.state_dict().items()
    return sum(value.numel() for name, value in kept if not name.endswith(statistics))


def test_it_has_pmns_parameters_on_the_same_stream(
    matched: Progressive, experiences: Experiences
) -> None:
    pmn = Progressive(options=options())
    pmn.build(experiences["train"].values())
    assert abs(parameters(matched) / parameters(pmn) - 1) <= 0.01
    assert matched.parameter_count().total == parameters(matched)


def test_only_m_vqa_is_widened_and_the_options_say_how_far(
    matched: Progressive, learned: Progressive
) -> None:
    assert list(matched.options.widths) == ["vqa"]
    assert matched.network["vqa"].plan.sizes.hidden == matched.options.widths["vqa"].hidden
    for task in TASKS:
        ours, usual = (
            {name: value.shape for name, value in strategy.network[task].state_dict().items()}
            for strategy in (matched, learned)
        )
        assert (ours == usual) == (task != "vqa")
        assert matched.network[task].callees == {}
    ours, usual = (strategy.network["vqa"].plan.sizes.hidden for strategy in (matched, learned))
    assert ours > usual


def test_the_size_of_m_vqa_by_hand(matched: Progressive, experiences: Experiences) -> None:
    """Appendix A.5, without callees."""
    names = experiences["train"]["vqa"].samples.store.names
    sizes = matched.network["vqa"].plan.sizes
    h, k, a, e = sizes.hidden, sizes.knowledge, sizes.attention, sizes.word
    d, words, answers = 128, len(names["question words"]), len(names["answers"])
    question = words * e + 3 * h * (e + h) + 6 * h
    attention = (h + 1) * a + (d + 1) * a + a + 1
    gates, state = 2 * (h + 1), 3 * h * (k + h) + 6 * h
    residual = (d + 1) * k + (k + 1) * k
    receiver = (k + 1) * k + 2 * k
    answer = 2 * (h + 1) * k + 2 * (k + 1) * k + (k + 1) * answers
    answer += (h + 1) * answers  # what the question alone says of it
    by_hand = question + attention + gates + state + residual + receiver + answer
    assert sum(p.numel() for p in matched.network["vqa"].parameters()) == by_hand


def test_looking_ahead_does_not_change_the_other_modules(
    matched: Progressive, experiences: Experiences
) -> None:
    plain = carry(Independent(options=options()), experiences)
    for task in TASKS[:-1]:
        assert digest_of(matched.network[task]) == digest_of(plain.network[task])


def test_it_must_know_the_stream_first_but_not_to_be_taken_up(
    matched: Progressive, experiences: Experiences, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match="call `expect` with all experiences first"):
        ParameterMatched(options=options()).learn(
            experiences["train"]["obj"], experiences["val"]["obj"]
        )
    matched.save(tmp_path)
    again = ParameterMatched(options=options())
    again.load(tmp_path, list(experiences["train"].values()))
    assert again.digest() == matched.digest()


def test_a_run_that_was_cut_goes_on_with_the_width_of_the_whole_stream(
    matched: Progressive, experiences: Experiences, tmp_path: Path
) -> None:
    whole = list(experiences["train"].values())
    first = ParameterMatched(options=options())
    first.expect(whole)
    first.learn(experiences["train"]["obj"], experiences["val"]["obj"])
    first.save(tmp_path)
    again = ParameterMatched(options=options())
    again.expect(whole)
    again.load(tmp_path, whole[:1])
    for task in TASKS[1:]:
        again.learn(experiences["train"][task], experiences["val"][task])
    assert again.digest() == matched.digest()
