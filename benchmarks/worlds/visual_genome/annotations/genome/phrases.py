"""Things and relations in plain English, for questions that are made of annotations."""

from __future__ import annotations

_IRREGULAR = {
    **{"person": "people", "man": "men", "woman": "women", "child": "children", "foot": "feet"},
    **{"tooth": "teeth", "mouse": "mice", "goose": "geese", "knife": "knives", "leaf": "leaves"},
    **{
        "shelf": "shelves",
        "loaf": "loaves",
        "wolf": "wolves",
        "calf": "calves",
        "scarf": "scarves",
    },
    **{"sheep": "sheep", "fish": "fish", "deer": "deer", "bus": "buses", "glass": "glasses"},
}
_HISSING = ("s", "x", "z", "ch", "sh")


def plural(name: str) -> str:
    """Return several of a thing: "fire trucks" of "fire truck"."""
    before, _, last = name.rpartition(" ")
    return f"{before} {_plural_word(last)}".strip()


def _plural_word(word: str) -> str:
    if word in _IRREGULAR:
        return _IRREGULAR[word]
    for ending in ("man", "woman", "child", "person"):  # fireman, snowman, grandchild
        if word.endswith(ending) and word != "human":
            return word[: -len(ending)] + _IRREGULAR[ending]
    if word.endswith(_HISSING):
        return f"{word}es"
    if word.endswith("y") and word[-2:-1] not in tuple("aeiou"):
        return f"{word[:-1]}ies"
    return f"{word}s"


def is_plural(name: str) -> bool:
    """Whether a class is of several things in one box, so that its boxes count nothing."""
    last = name.rpartition(" ")[2]
    if last in _IRREGULAR:
        return False
    irregular = tuple(many for one, many in _IRREGULAR.items() if one != many)
    return last.endswith(irregular) or (last.endswith("s") and not last.endswith(("ss", "us")))


def count_question(thing: str) -> str:
    """Ask how many there are, as the paper does."""
    return f"how many {plural(thing)} are in this picture"


def related_count_question(subject: str | None, relation: str, thing: str) -> str:
    """Ask how many stand in a relation to a thing: "how many behind door", as the paper does."""
    asked = f"{plural(subject)} " if subject is not None else ""
    return f"how many {asked}{relation} {thing}"


def relation_question(relation: str, thing: str) -> str:
    """Ask what stands in a relation to a thing: "what is on the desk"."""
    verb = "" if relation.split()[0] in ("has", "have") else "is "
    return f"what {verb}{relation} the {thing}"
