"""Curricula: which samples a stage leaves, by family, program and scene; what is refused."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest

from pmn_cl import registry
from pmn_cl.data.curriculum import operations, rows_of_stage
from pmn_cl.data.samples import Samples
from pmn_cl.data.store import Store
from pmn_cl.errors import UserError


@dataclass
class Leaving:
    """A stage."""

    until: float = 30.0
    without: list[str] = field(default_factory=list)
    most_operations: int | None = None
    most_objects: int | None = None


def samples_of(digits: Store, task: str) -> Samples:
    return Samples.whole(digits, "train", registry.load(registry.TASKS[task])())


def test_operations_by_hand() -> None:
    programs = np.array(
        [b"exist(find(red seven))", b"query(colour, unique(relate(left, unique(seven))))", b"plain"]
    )
    assert operations(programs).tolist() == [2, 4, 0]


def test_a_stage_leaves_families_out(digits: Store) -> None:
    samples = samples_of(digits, "vqa")
    rows = rows_of_stage(samples, Leaving(without=["exist", "verify"]))
    names, family = digits.names["families"], samples.columns["family"]
    left = {names[number] for number in family[rows]}
    others = {names[number] for number in np.delete(family, rows)}
    assert others == {"exist", "verify"}
    assert not left & others


def test_the_families_of_relations_are_the_relations(digits: Store) -> None:
    samples = samples_of(digits, "rel")
    rows = rows_of_stage(samples, Leaving(without=["left", "right", "above", "below"]))
    names, relation = digits.names["relations"], samples.columns["relation"]
    assert {names[number] for number in relation[rows]} == {"same digit", "same colour", "nearest"}
    assert not {names[number] for number in np.delete(relation, rows)} - {
        *("left", "right", "above", "below")
    }


def test_a_stage_leaves_long_programs_out(digits: Store) -> None:
    samples = samples_of(digits, "vqa")
    rows = rows_of_stage(samples, Leaving(most_operations=2))
    lengths = [program.count(b"(") for program in samples.columns["program"]]
    assert rows.tolist() == [row for row, length in enumerate(lengths) if length <= 2]
    assert 0 < len(rows) < len(samples)


def test_a_stage_leaves_full_scenes_out(digits: Store) -> None:
    samples = samples_of(digits, "cnt")
    rows = rows_of_stage(samples, Leaving(most_objects=6))
    digit = np.asarray(digits.table("train", "scenes")["digit"].array[:])
    objects = (digit >= 0).sum(1)[samples.columns["scene"]]
    assert objects[rows].max() <= 6
    assert np.delete(objects, rows).min() > 6


def test_limits_hold_together(digits: Store) -> None:
    samples = samples_of(digits, "vqa")
    both = rows_of_stage(samples, Leaving(without=["exist"], most_objects=6))
    one = rows_of_stage(samples, Leaving(without=["exist"]))
    other = rows_of_stage(samples, Leaving(most_objects=6))
    assert both.tolist() == sorted(set(one) & set(other))


def test_an_unknown_family_is_refused_with_the_known_ones(digits: Store) -> None:
    with pytest.raises(UserError, match=r"unknown family 'exists'.*did you mean 'exist'"):
        rows_of_stage(samples_of(digits, "vqa"), Leaving(without=["exists"]))


def test_a_stage_that_leaves_nothing_is_refused(digits: Store) -> None:
    everything = digits.names["families"]
    with pytest.raises(UserError, match=r"the stage until 30% leaves none of \d+ training samples"):
        rows_of_stage(samples_of(digits, "vqa"), Leaving(without=everything))


def test_samples_without_families_are_refused(digits: Store) -> None:
    with pytest.raises(UserError, match=r"curriculum of 'obj': its samples are of no families"):
        rows_of_stage(samples_of(digits, "obj"), Leaving(without=["exist"]))
