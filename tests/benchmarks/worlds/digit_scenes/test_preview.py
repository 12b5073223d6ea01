"""The preview shows the scenes that the store holds, readably."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.image import imread
from matplotlib.text import Text

from benchmarks.worlds.digit_scenes.concepts import CANVAS, is_novel_pair
from benchmarks.worlds.digit_scenes.detector import Detector
from benchmarks.worlds.digit_scenes.layout import SCALE, wrap
from benchmarks.worlds.digit_scenes.panels import Panel, choose_panels, read_scene, sentence
from benchmarks.worlds.digit_scenes.preview import draw_preview, make_figure
from benchmarks.worlds.digit_scenes.relations import related
from benchmarks.worlds.digit_scenes.render import draw
from benchmarks.worlds.digit_scenes.world import SPLITS, DigitOptions, DigitScenes
from pmn_cl.data.store import Store
from pmn_cl.errors import UserError


@pytest.fixture(scope="module")
def picture(digits: Store) -> Figure:
    """The preview of the small world."""
    return make_figure(digits)


@pytest.fixture(scope="module")
def panels(digits: Store) -> list[Panel]:
    """What that preview shows."""
    return choose_panels(digits)


def written_in(figure: Figure) -> list[Text]:
    """Return every text of a picture."""
    found = figure.findobj(Text)
    return [text for text in found if isinstance(text, Text) and text.get_text()]


def test_the_file_is_a_png_about_two_thousand_pixels_wide(digits: Store, tmp_path: Path) -> None:
    DigitScenes().preview(digits, tmp_path / "scenes.png")
    assert (tmp_path / "scenes.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    height, width, _ = imread(tmp_path / "scenes.png").shape
    assert width == 2000
    assert 1600 < height < 2400


def test_the_same_store_gives_the_same_picture(digits: Store, tmp_path: Path) -> None:
    draw_preview(digits, tmp_path / "one.png")
    draw_preview(digits, tmp_path / "two.png")
    assert (tmp_path / "one.png").read_bytes() == (tmp_path / "two.png").read_bytes()


@pytest.mark.parametrize("split", SPLITS)
def test_a_rebuilt_scene_has_the_pixels_that_the_features_come_from(
    digits: Store, split: str
) -> None:
    detector = Detector(0, width=128, noise=0.1)
    for number in range(20):
        scene = read_scene(digits, split, number)
        noise = np.random.default_rng([0, 3, SPLITS.index(split), number])
        features = detector(draw(scene), np.array(scene.regions), noise)
        stored = digits.table(split, "scenes")["regions"].array[number]
        np.testing.assert_array_equal(features, stored[: len(features)])
        assert not stored[len(features) :].any()


def test_a_scene_appears_in_the_picture_pixel_for_pixel(
    picture: Figure, panels: list[Panel]
) -> None:
    canvas: Any = FigureCanvasAgg(picture)  # matplotlib leaves it untyped
    canvas.draw()
    shown = np.asarray(canvas.buffer_rgba())[..., :3]
    for image, panel in zip(picture.axes[0].images, panels, strict=True):
        x, _, _, y = (round(edge) for edge in image.get_extent())
        seen = shown[y : y + SCALE * CANVAS, x : x + SCALE * CANVAS]
        same = (seen == draw(panel.scene, SCALE)).all(axis=2)
        assert same.mean() > 0.8  # all but what is drawn on it


def test_no_text_is_cut_off_and_no_two_overlap(picture: Figure) -> None:
    canvas: Any = FigureCanvasAgg(picture)  # matplotlib leaves it untyped
    renderer = canvas.get_renderer()
    boxes = [(text.get_text(), text.get_window_extent(renderer)) for text in written_in(picture)]
    assert len(boxes) > 80
    for text, box in boxes:
        assert box.x0 >= 0 and box.y0 >= 0, text
        assert box.x1 <= picture.bbox.x1 and box.y1 <= picture.bbox.y1, text
    for (one, a), (other, b) in combinations(boxes, 2):
        apart = a.x1 <= b.x0 or b.x1 <= a.x0 or a.y1 <= b.y0 or b.y1 <= a.y0
        assert apart, f"{one!r} lies over {other!r}"


def test_the_panels_show_every_arrangement_ground_and_kind_of_box(panels: list[Panel]) -> None:
    assert [panel.split for panel in panels] == ["test"] * 4 + ["novel"] * 2
    assert {panel.scene.arrangement for panel in panels[:4]} == set(range(4))
    assert {panel.scene.ground for panel in panels[:4]} == set(range(4))
    assert len({panel.relation for panel in panels}) >= 5
    for panel in panels:
        described = [note.thing for note in panel.notes]
        assert sorted(t for t in described if t is not None) == list(range(len(panel.scene.things)))
        assert {"yes/no", "number", "other", "relation"} == {asked.kind for asked in panel.asked}
        novel = [is_novel_pair(t.digit, t.colour) for t in panel.scene.things]
        assert any(novel) == (panel.split == "novel")


def test_the_arrow_leads_to_the_only_thing_in_that_relation(panels: list[Panel]) -> None:
    order = ("left of", "right of", "above", "below", "same digit", "same colour", "nearest to")
    for panel in panels:
        link = panel.asked[-1].link
        assert link is not None and panel.arrow is not None
        subjects = related(panel.scene)[order.index(link.name)][link.given]
        assert subjects == [link.sought]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("is there a red seven", "Is there a red seven?"),
        ("the dotted one has what colour", "The dotted one has what colour?"),
        ("count the symbols above the six", "Count the symbols above the six."),
        ("tell me the size of the nine", "Tell me the size of the nine."),
        ("can you tell me the size of the nine", "Can you tell me the size of the nine?"),
    ],
)
def test_questions_end_as_people_write_them(words: str, expected: str) -> None:
    assert sentence(words.split()) == expected


def test_a_statement_ends_with_a_period() -> None:
    assert sentence(["most", "are", "red"], statement=True) == "Most are red."


def test_wrapping_keeps_every_word_in_order() -> None:
    lines = wrap("one two three four five six", width=60, size=16)
    assert len(lines) > 1
    assert " ".join(lines) == "one two three four five six"


def test_a_missing_folder_is_the_users_to_mend(digits: Store, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="could not be written"):
        draw_preview(digits, tmp_path / "nowhere" / "scenes.png")


def test_a_folder_in_the_files_place_is_the_users_to_mend(digits: Store, tmp_path: Path) -> None:
    (tmp_path / "scenes.png").mkdir()
    with pytest.raises(UserError, match="could not be written"):
        draw_preview(digits, tmp_path / "scenes.png")


@pytest.mark.parametrize("name", ["scenes.xyz", "scenes", ".png", "nowhere/scenes.png"])
def test_a_picture_that_could_not_be_drawn_is_refused_beforehand(tmp_path: Path, name: str) -> None:
    with pytest.raises(UserError, match=r"expected a name like scenes\.png|no folder"):
        DigitScenes().check_preview(tmp_path / name)
    DigitScenes().check_preview(tmp_path / "scenes.PNG")


def test_a_world_of_one_scene_per_split_has_a_preview_too(tmp_path: Path) -> None:
    one = {"train": 1, "val": 1, "test": 1, "novel": 1}
    options = DigitOptions.model_validate(
        {"scenes": one, "backgrounds": 0, "duplicates": 0.0, "seed": 3}
    )
    store = DigitScenes(options).prepare(tmp_path)
    assert len(choose_panels(store)) == 2
    draw_preview(store, tmp_path / "scenes.png")
    assert (tmp_path / "scenes.png").stat().st_size > 100_000
