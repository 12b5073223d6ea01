"""As many parameters as another strategy has: the search, and what it finds for real ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field

from benchmarks.stream import Stream
from pmn_cl import registry
from pmn_cl.config.stream import parse_stream
from pmn_cl.errors import UserError
from pmn_cl.strategy.matching import (
    Knob,
    match,
    matched_options,
    matched_options_for,
    total,
    total_parameters,
)

TASKS = ["obj", "att", "rel", "cap", "cnt", "vqa"]


# The search, on sizes that can be written down.


class Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    attention: int = Field(default=6, ge=1)


class Shape(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    width: int | None = None
    parts: dict[str, Part] = Field(default_factory=dict)
    other: str = "as it was"


COARSE, FINE = Knob(("width",), least=4, most=500), Knob(("parts", "top", "attention"), most=300)


def size(shape: Shape) -> int:
    width, attention = shape.width or 10, shape.parts.get("top", Part()).attention
    return 3 * width * width + 2 * width * attention + 40


@settings(deadline=None)
@given(st.integers(1, 2_000_000), st.sampled_from([0.0005, 0.01, 0.1]))
def test_what_is_found_fits_and_what_is_refused_comes_near_nothing(
    target: int, tolerance: float
) -> None:
    given_options = Shape(other="mine")
    try:
        found = match(size, given_options, COARSE, FINE, target, tolerance)
    except UserError:
        # Neither the usual size nor any width alone would have done.
        alone = [size(given_options)] + [3 * w * w + 12 * w + 40 for w in range(4, 501)]
        assert min(abs(total - target) for total in alone) > tolerance * target
        # From width 34 on, half a step of attention (34) is less than 1% of 3 · 34² + ….
        reached = 3 * 34 * 34 + 12 * 34 + 40 <= target <= 3 * 500 * 500 + 2 * 500 * 300 + 40
        assert tolerance < 0.01 or not reached
    else:
        assert found.total == size(found.options)
        assert abs(found.total - target) <= tolerance * target
        assert found.options.other == "mine"
        assert 4 <= (found.options.width or 10) <= 500


def test_what_fits_already_stays_as_it_is() -> None:
    usual = Shape()
    assert match(size, usual, COARSE, FINE, size(usual) + 2).options is usual


def test_the_fine_knob_is_left_alone_where_the_coarse_one_will_do() -> None:
    found = match(size, Shape(), COARSE, FINE, size(Shape(width=300)) + 5).options
    assert (found.width, found.parts) == (300, {})


def test_the_fine_knob_is_turned_where_one_step_of_the_coarse_one_is_too_much() -> None:
    # Widths 12 and 13 give 616 and 703 (with attention 6); 660 is 6% from either.
    found = match(size, Shape(), COARSE, FINE, 660)
    assert abs(found.total - 660) <= 6
    assert found.options.parts["top"].attention != 6


def test_a_target_out_of_reach_says_how_near_it_came() -> None:
    most = 3 * 500 * 500 + 2 * 500 * 300 + 40  # both knobs at their ends: 1050040
    with pytest.raises(UserError, match=rf"2100080 .* nearest are {most} \(-50\.0%\)"):
        match(size, Shape(), COARSE, FINE, 2 * most)
    least = 3 * 16 + 2 * 4 + 40  # 96
    with pytest.raises(UserError, match=rf"width and parts.top.attention .*{least} \(\+92\.0%\)"):
        match(size, Shape(), COARSE, FINE, 50)


def test_nothing_much_larger_than_the_target_is_ever_built() -> None:
    tried: list[int] = []

    def counted(shape: Shape) -> int:
        tried.append(size(shape))
        return tried[-1]

    match(counted, Shape(), Knob(("width",), least=4), FINE, 100_000)
    assert max(tried) < 4 * 100_000
    assert len(tried) < 20


# Real strategies, on a small world.


@pytest.fixture(scope="module")
def experiences(cache: Path) -> list[Any]:
    scenes = {"train": 300, "val": 50, "test": 250, "novel": 200}
    spec = {
        "name": "small",
        "world": {"name": "digits", "scenes": scenes},
        "tasks": TASKS,
        "strategies": ["pmn"],
        "seeds": [0],
    }
    stream = Stream.open(parse_stream(spec), 0, cache=cache)
    return list(stream.as_avalanche().streams["train"])


def made(name: str, **options: Any) -> Any:
    kind = registry.find(name, registry.STRATEGIES, "strategy")
    return kind.Options.model_validate(options)


def counted(name: str, options: Any, experiences: list[Any]) -> int:
    """Count what a strategy would keep, without the running statistics of batch norm."""
    strategy = registry.find(name, registry.STRATEGIES, "strategy")(options=options)
    strategy.expect(experiences)
    strategy.build(experiences)
    statistics = ("running_mean", "running_var", "num_batches_tracked")
    kept = strategy.model.state_dict().items()
    return sum(value.numel() for name, value in kept if not name.endswith(statistics))


INDEPENDENT = "strategies.independent:Independent"
LARGE = {  # with options that make no difference to how they are widened
    "hard_sharing": {"lr_scale": 0.5},
    "hard_sharing_joint": {},
    INDEPENDENT: {"training": {"vqa": {"epochs": 2}}},
    "baselines.pnn:ProgressiveColumns": {},
    "baselines.multinet:Multinet": {},
}


@pytest.mark.parametrize("name", LARGE)
def test_what_is_matched_to_pmn_has_its_parameters_within_a_percent(
    name: str, experiences: list[Any]
) -> None:
    usual = made(name, **LARGE[name])
    found = matched_options_for(name, usual, "pmn", experiences).options
    target = counted("pmn", made("pmn"), experiences)
    assert abs(counted(name, found, experiences) / target - 1) <= 0.01
    assert abs(counted(name, usual, experiences) / target - 1) > 0.01  # it was changed
    widths = {"width", "attention", "widths"}
    assert found.model_dump(exclude=widths) == usual.model_dump(exclude=widths)


def test_pmn_itself_can_be_as_large_as_another(experiences: list[Any]) -> None:
    options = made("pmn", asking="own")
    found = matched_options(
        "pmn", options, "hard_sharing", made("hard_sharing", width=300), experiences
    ).options
    target = counted("hard_sharing", made("hard_sharing", width=300), experiences)
    assert abs(counted("pmn", found, experiences) / target - 1) <= 0.01


def test_the_others_options_are_those_of_the_stream_where_they_are_known(
    experiences: list[Any],
) -> None:
    other = made("pmn", widths={"cap": {"caption": 150}})
    usual = made("hard_sharing")
    found = matched_options_for("hard_sharing", usual, "pmn", experiences, {"pmn": other}).options
    target = counted("pmn", other, experiences)
    assert target > 1.1 * counted("pmn", made("pmn"), experiences)
    assert abs(counted("hard_sharing", found, experiences) / target - 1) <= 0.01


def test_a_strategy_of_the_papers_size_is_compared_at_the_papers_size(
    experiences: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def matched(name: str, options: Any, other: str, other_options: Any, *_: Any) -> Any:
        asked.append((name, other, other_options.size))
        return options

    monkeypatch.setattr("pmn_cl.strategy.matching.matched_options", matched)
    matched_options_for("hard_sharing", made("hard_sharing", size="paper"), "pmn", experiences)
    assert asked == [("hard_sharing", "pmn", "paper")]


def test_an_unknown_strategy_is_named_with_the_nearest(experiences: list[Any]) -> None:
    with pytest.raises(UserError, match=r"unknown strategy 'pmm', .*did you mean 'pmn'"):
        matched_options_for("hard_sharing", made("hard_sharing"), "pmm", experiences)


def test_what_has_no_size_cannot_be_matched(experiences: list[Any]) -> None:
    with pytest.raises(UserError, match="'constant' has no network"):
        matched_options_for("hard_sharing", made("hard_sharing"), "constant", experiences)
    with pytest.raises(UserError, match=r"'constant' cannot be made as large.*`width`"):
        matched_options_for("constant", made("constant"), "pmn", experiences)


def test_what_cannot_be_reached_names_both_strategies(experiences: list[Any]) -> None:
    """The modules below M_vqa have more parameters than such a narrow network."""
    tiny = made("hard_sharing", width=8, attention=1)
    with pytest.raises(
        UserError, match=f"'{INDEPENDENT}' .* as large as 'hard_sharing': .*nearest"
    ):
        matched_options(INDEPENDENT, made(INDEPENDENT), "hard_sharing", tiny, experiences)


@pytest.mark.parametrize("by", ["bytes", "flops"])
def test_bytes_and_operations_are_matched_too(by: Any, experiences: list[Any]) -> None:
    usual = made("hard_sharing")
    found = matched_options_for("hard_sharing", usual, "pmn", experiences, by=by)
    target = total("pmn", made("pmn"), experiences, by)
    assert found.target == target and abs(found.ratio - 1) <= 0.01
    assert total("hard_sharing", found.options, experiences, by) == found.total
    assert abs(total("hard_sharing", usual, experiences, by) / target - 1) > 0.01


@pytest.mark.parametrize("name", ["replay", "ewc", "gem", "lwf", "hard_sharing_cumulative"])
@pytest.mark.parametrize("by", ["bytes", "flops"])
def test_what_is_known_only_after_learning_is_not_matched(
    name: str, by: Any, experiences: list[Any]
) -> None:
    with pytest.raises(UserError, match=f"what '{name}' keeps and does beside its network"):
        matched_options_for(name, made(name), "pmn", experiences, by=by)


def test_what_no_knob_reaches_is_as_near_as_can_be(experiences: list[Any]) -> None:
    found = match(size, Shape(), COARSE, FINE, 50, by="flops")
    assert found.total == 96 and found.ratio == pytest.approx(96 / 50)


def test_counting_draws_no_random_numbers(experiences: list[Any]) -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    total_parameters("pmn", made("pmn"), experiences)
    assert torch.equal(torch.rand(3), expected)
