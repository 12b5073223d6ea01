"""Laws that the parts of the digit world keep for any scene."""

from __future__ import annotations

from random import Random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.worlds.digit_scenes.concepts import (
    ABOVE,
    BELOW,
    GROUNDS,
    LEFT,
    NEAREST,
    RIGHT,
    SAME_COLOUR,
    SAME_DIGIT,
)
from benchmarks.worlds.digit_scenes.descriptions import KINDS, PROPERTIES, Index, describe
from benchmarks.worlds.digit_scenes.detector import GLIMPSE, Detector, glimpse
from benchmarks.worlds.digit_scenes.relations import inverse, related
from benchmarks.worlds.digit_scenes.render import draw, split_handwriting
from benchmarks.worlds.digit_scenes.scenes import Scene, draw_scene

OPPOSITE = {LEFT: RIGHT, RIGHT: LEFT, ABOVE: BELOW, BELOW: ABOVE}
SYMMETRIC = (SAME_DIGIT, SAME_COLOUR)


@st.composite
def any_scene(draw_value: st.DrawFn) -> Scene:
    """Draw a scene under any options."""
    return draw_scene(
        Random(draw_value(st.integers(0, 10**9))),
        [[digit] for digit in range(10)],  # the first ten images show zero, one, … nine
        duplicates=draw_value(st.floats(0, 2)),
        backgrounds=draw_value(st.integers(0, 6)),
        novel=draw_value(st.booleans()),
    )


few = settings(max_examples=60, deadline=None, derandomize=True)


@few
@given(any_scene())
def test_each_thing_stands_in_exactly_one_direction_of_each_other(scene: Scene) -> None:
    subjects = related(scene)
    for o in range(len(scene.things)):
        around = [s for direction in OPPOSITE for s in subjects[direction][o]]
        assert sorted(around) == [s for s in range(len(scene.things)) if s != o]


@few
@given(any_scene())
def test_directions_have_opposites_and_likeness_goes_both_ways(scene: Scene) -> None:
    subjects = related(scene)
    back = OPPOSITE | {relation: relation for relation in SYMMETRIC}
    for relation, opposite in back.items():
        assert inverse(subjects)[relation] == subjects[opposite]
    assert all(subjects[NEAREST])  # each thing has a nearest, itself never
    assert not any(o in found for of in subjects for o, found in enumerate(of))


@few
@given(any_scene())
def test_the_inverse_of_the_inverse_is_the_relation_itself(scene: Scene) -> None:
    subjects = related(scene)
    assert inverse(inverse(subjects)) == subjects


@few
@given(any_scene(), st.integers(0, 10**9), st.sampled_from([(), *((p,) for p in PROPERTIES)]))
def test_a_unique_description_fits_its_thing_alone(
    scene: Scene, seed: int, without: tuple[str, ...]
) -> None:
    index = Index(scene)
    for number in range(len(scene.things)):
        description = index.unique(Random(seed), number, without)
        if description is not None:
            assert [i for i, t in enumerate(scene.things) if description.fits(t)] == [number]
            assert all(getattr(description, prop) is None for prop in without)


@few
@given(any_scene(), st.sampled_from(KINDS))
def test_an_index_finds_what_a_description_fits(scene: Scene, kind: tuple[str, ...]) -> None:
    index = Index(scene)
    for thing in scene.things:
        description = describe(thing, kind)
        assert description.fits(thing)
        fitting = [i for i, other in enumerate(scene.things) if description.fits(other)]
        assert index.find(description) == fitting


@few
@given(any_scene())
def test_proposals_are_few_and_show_every_thing(scene: Scene) -> None:
    assert len(scene.regions) == len(scene.owners) <= 24
    for thing in range(len(scene.things)):
        assert scene.regions_of(thing)
    for x1, y1, x2, y2 in scene.regions:
        assert 0 <= x1 < x2 <= 192 and 0 <= y1 < y2 <= 192


@st.composite
def boxes(draw_value: st.DrawFn) -> tuple[int, int, int, int]:
    """Draw a box inside a canvas of 192 pixels."""
    x1, y1 = draw_value(st.integers(0, 190)), draw_value(st.integers(0, 190))
    return x1, y1, draw_value(st.integers(x1 + 1, 192)), draw_value(st.integers(y1 + 1, 192))


@few
@given(st.lists(boxes(), min_size=1, max_size=5))
def test_a_glimpse_shows_pixels_inside_its_box_in_order(
    looked_at: list[tuple[int, int, int, int]],
) -> None:
    rows, columns = np.mgrid[:192, :192]
    where = np.stack([columns, rows, 0 * rows], axis=2).astype(np.uint8)  # a pixel says its place
    seen = glimpse(where, np.array(looked_at))
    assert seen.shape == (len(looked_at), GLIMPSE, GLIMPSE, 3)
    for (x1, y1, x2, y2), pixels in zip(looked_at, seen.astype(int), strict=True):
        xs, ys = pixels[..., 0], pixels[..., 1]
        assert x1 <= xs.min() and xs.max() < x2 and y1 <= ys.min() and ys.max() < y2
        assert (np.diff(xs, axis=1) >= 0).all() and (np.diff(ys, axis=0) >= 0).all()
        assert (xs == xs[0]).all() and (ys == ys[:, :1]).all()
        if x2 - x1 == GLIMPSE:
            assert xs[0].tolist() == list(range(x1, x2))


@few
@given(any_scene())
def test_drawing_leaves_the_ground_as_it_is_between_things(scene: Scene) -> None:
    difference = np.abs(draw(scene).astype(int) - list(GROUNDS.values())[scene.ground]).max(axis=2)
    ground = np.ones((192, 192), dtype=bool)
    for thing in scene.things:
        x1, y1, x2, y2 = thing.box
        ground[y1:y2, x1:x2] = False
        assert difference[y1:y2, x1:x2].max() > 40  # a thing can be seen
    assert difference[ground].max() <= 7  # the ground is a little uneven


@few
@given(any_scene())
def test_a_box_looks_the_same_whatever_else_is_looked_at(scene: Scene) -> None:
    detector, canvas = Detector(0, width=16, noise=0.0), draw(scene)
    rng = np.random.default_rng(0)
    together = detector(canvas, np.array(scene.regions), rng)
    alone = [detector(canvas, np.array([box]), rng)[0] for box in scene.regions]
    np.testing.assert_array_equal(together, np.stack(alone))


def test_every_image_belongs_to_one_split() -> None:
    shares = split_handwriting(seed=5)
    given_out = [i for split in ("train", "val", "test") for of in shares[split] for i in of]
    assert sorted(given_out) == list(range(1797))
    assert shares["novel"] == shares["test"]
