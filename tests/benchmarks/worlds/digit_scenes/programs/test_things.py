"""What is seen in regions: things, of which duplicates are one."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.worlds.digit_scenes.programs.things import SeenScenes
from pmn_cl.data.programs import SeenRegions
from pmn_cl.data.store import Store


def regions(objects: list[list[float]], boxes: list[list[float]]) -> SeenRegions:
    """Return one scene of regions with these logits of background, zero and one."""
    logits = np.full((1, len(objects), 11), -30.0)
    logits[0, :, :3] = objects
    mask = np.ones((1, len(objects)), bool)
    return SeenRegions(logits, np.zeros((1, len(objects), 11)), np.array([boxes]), mask)


LEFT, ABOUT_LEFT, RIGHT = [0.1, 0.1, 0.2, 0.2], [0.1, 0.1, 0.2, 0.18], [0.6, 0.1, 0.7, 0.2]


def test_duplicates_are_one_thing_and_background_is_none() -> None:
    seen = regions([[0, 5, 0], [0, 5, 0], [0, 0, 5], [5, 0, 0]], [LEFT, ABOUT_LEFT, RIGHT, RIGHT])
    things = SeenScenes(seen)[0]
    assert things.regions == [[0, 1], [2]]
    assert things.values("digit").tolist() == [0, 1]
    assert things.boxes[0] == pytest.approx([0.1, 0.1, 0.2, 0.19])
    assert [things.shown_by(region) for region in range(4)] == [0, 0, 1, None]


def test_duplicates_that_disagree_are_weighed() -> None:
    # e³ to 1 for a zero, e¹ to 1 for a one: e² to 1 for a zero.
    things = SeenScenes(regions([[-9, 3, 0], [-9, 0, 1]], [LEFT, ABOUT_LEFT]))[0]
    assert things.values("digit").tolist() == [0]
    assert np.exp(things.looks["digit"][0, 0]) == pytest.approx(1 / (1 + np.exp(-2)))


def test_a_region_that_is_known_to_show_something_does() -> None:
    scenes = SeenScenes(regions([[5, 1, 0], [0, 0, 5]], [LEFT, RIGHT]))
    assert len(scenes[0]) == 1
    things = scenes.things(0, known=0)
    assert things.shown_by(0) == 0 and things.values("digit").tolist() == [0, 1]


def test_padding_shows_nothing() -> None:
    seen = regions([[0, 5, 0], [0, 5, 0]], [LEFT, RIGHT])
    seen.mask[0, 1] = False
    assert len(SeenScenes(seen)[0]) == 1


@pytest.mark.parametrize("split", ["train", "test"])
def test_with_true_labels_there_are_as_many_things_as_there_are(digits: Store, split: str) -> None:
    scenes = {n: c.load() for n, c in digits.table(split, "scenes").items() if n != "regions"}
    shown = scenes["owner"] >= 0
    objects = np.where(shown[..., None], np.eye(11)[1], np.eye(11)[0]) * 30
    seen = SeenScenes(
        SeenRegions(objects, np.zeros(objects.shape), scenes["boxes"], scenes["mask"])
    )
    for number in range(len(shown)):
        own = scenes["owner"][number]
        expected = {tuple(np.flatnonzero(own == k)) for k in range(own.max() + 1)}
        assert {tuple(group) for group in seen[number].regions} == expected
