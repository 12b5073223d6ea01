"""English of questions that are made."""

from __future__ import annotations

import pytest

from benchmarks.worlds.visual_genome.annotations.genome import phrases


@pytest.mark.parametrize(
    ("one", "many"),
    [
        ("dog", "dogs"),
        ("bus", "buses"),
        ("fire truck", "fire trucks"),
        ("baby", "babies"),
        ("boy", "boys"),
        ("bench", "benches"),
        ("person", "people"),
        ("fireman", "firemen"),
        ("woman", "women"),
        ("human", "humans"),
        ("wine glass", "wine glasses"),
        ("sheep", "sheep"),
        ("box", "boxes"),
    ],
)
def test_plurals(one: str, many: str) -> None:
    assert phrases.plural(one) == many
    assert not phrases.is_plural(one)
    assert phrases.is_plural(many) or one == many


def test_questions_as_the_paper_puts_them() -> None:
    assert phrases.count_question("dog") == "how many dogs are in this picture"
    assert phrases.related_count_question("plate", "on", "table") == "how many plates on table"
    assert phrases.related_count_question(None, "behind", "door") == "how many behind door"
    assert phrases.relation_question("on top of", "desk") == "what is on top of the desk"
    assert phrases.relation_question("has", "wheel") == "what has the wheel"
