"""How questions are put into English: several phrasings per family, two of them kept for test.

In a phrasing, ``{A}`` is a description with its article, ``{P}`` a plural, ``{D}`` a
description after "the", ``{r}`` a relation, ``{attr}`` a property's name, ``{v}`` a value.
Phrasings kept for test use only words that training knows.
"""

from __future__ import annotations

from random import Random

from benchmarks.worlds.digit_scenes.concepts import (
    COLOUR_NAMES,
    DIGITS,
    DIGITS_PLURAL,
    SIZE_NAMES,
    TEXTURES,
)

KEPT_FOR_TEST = 2  # the last so many phrasings of each family

_QUERY = (
    "what {attr} is the {D}",
    "what {attr} does the {D} have",
    "what is the {attr} of the {D}",
    "tell me the {attr} of the {D}",
    "the {D} has what {attr}",
    "can you tell me the {attr} of the {D}",
    "do you see what {attr} the {D} has",
)

PHRASINGS: dict[str, tuple[str, ...]] = {
    "exist": (
        "is there {A}",
        "do you see {A}",
        "can you see {A}",
        "does the picture show {A}",
        "is there {A} in the picture",
        "can you see {A} in the picture",
        "is {A} there",
    ),
    "verify": (
        "is the {D} {v}",
        "does the {D} look {v}",
        "is it true that the {D} is {v}",
        "can you see that the {D} is {v}",
        "would you say the {D} is {v}",
        "would you say that the {D} is {v}",
        "is it true the {D} is {v}",
    ),
    "same": (
        "do the {D} and the {D2} have the same {attr}",
        "is the {attr} of the {D} the same as the {attr} of the {D2}",
        "does the {D} have the same {attr} as the {D2}",
        "are the {D} and the {D2} of the same {attr}",
        "is it true that the {D} and the {D2} have the same {attr}",
        "would you say the {D} and the {D2} have the same {attr}",
    ),
    "more": (
        "are there more {P} than {P2}",
        "do you see more {P} than {P2}",
        "can you see more {P} than {P2}",
        "does the picture show more {P} than {P2}",
        "are there more {P} in the picture than {P2}",
        "is it true that there are more {P} than {P2}",
    ),
    "exist_related": (
        "is there {A} {r} the {D}",
        "do you see {A} {r} the {D}",
        "can you see {A} {r} the {D}",
        "does the picture show {A} {r} the {D}",
        "is it true that there is {A} {r} the {D}",
        "would you say there is {A} {r} the {D}",
    ),
    "count": (
        "how many {P} are there",
        "how many {P} do you see",
        "how many {P} can you see",
        "what is the number of {P}",
        "how many {P} does the picture show",
        "count the {P}",
        "what number of {P} do you see",
        "how many {P} are in the picture",
    ),
    "count_related": (
        "how many symbols are there {r} the {D}",
        "how many symbols do you see {r} the {D}",
        "how many symbols can you see {r} the {D}",
        "what is the number of symbols {r} the {D}",
        "count the symbols {r} the {D}",
        "what number of symbols do you see {r} the {D}",
        "how many symbols does the picture show {r} the {D}",
    ),
    "query": _QUERY,
    "query_related": tuple(p.replace("{D}", "symbol {r} the {D}") for p in _QUERY),
    "arrangement": (
        "what do the symbols form",
        "what shape do the symbols form",
        "in what shape are the symbols",
        "how are the symbols placed",
        "what shape do you see the symbols form",
        "tell me what the symbols form",
        "in what shape do you see the symbols",
    ),
    "majority": (
        "what colour are most symbols",
        "what colour do most symbols have",
        "what is the colour of most symbols",
        "tell me the colour of most symbols",
        "most symbols have what colour",
        "can you tell me the colour of most symbols",
        "do you see what colour most symbols have",
    ),
    "ground": (
        "what do the symbols lie on",
        "what are the symbols lying on",
        "what is under the symbols",
        "tell me what the symbols lie on",
        "on what do the symbols lie",
        "can you tell me what is under the symbols",
        "do you see what the symbols lie on",
    ),
}
FAMILIES = tuple(PHRASINGS)

RELATION_PHRASES = (
    ("left of", "to the left of"),
    ("right of", "to the right of"),
    ("above", "over"),
    ("below", "under"),
    ("with the same digit as", "showing the same digit as"),
    ("with the same colour as", "showing the same colour as"),
    ("nearest to", "closest to"),
)
LONGEST_QUESTION = 22  # words


def choose_phrasing(rng: Random, family: str, *, test: bool) -> int:
    """Draw a phrasing's number; only test splits draw from those kept for test."""
    return rng.randrange(len(PHRASINGS[family]) - (0 if test else KEPT_FOR_TEST))


def with_article(noun_phrase: str) -> str:
    """Return the phrase behind a or an, by its sound."""
    return f"{'an' if noun_phrase.startswith(('orange', 'eight')) else 'a'} {noun_phrase}"


def question_vocabulary() -> tuple[str, ...]:
    """Return every word a question may hold, sorted; index 0 is the padding."""
    words: set[str] = {"a", "an", "symbol", "symbols", "colour", "digit", "size", "texture"}
    words.update(COLOUR_NAMES, SIZE_NAMES, TEXTURES, DIGITS, DIGITS_PLURAL)
    for phrasings in (*PHRASINGS.values(), *RELATION_PHRASES):
        for phrasing in phrasings:
            words.update(w for w in phrasing.split() if "{" not in w)
    return ("", *sorted(words))
