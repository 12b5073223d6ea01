"""Text as the metrics see it: VQA answers made comparable, captions cut into tokens.

Both functions imitate a published evaluator, oddities included, because a score is only
comparable when the text was prepared alike. Not for building vocabularies or model inputs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

__all__ = ["normalise_answer", "strip_answer", "tokenize_caption"]

# --- VQA answers -------------------------------------------------------------------------

# Order does not matter here: every sign is decided on the text as it came in.
_ANSWER_SIGNS = ';/[]"{}()=+\\_-><@`,?!'
_DIGIT_COMMA_DIGIT = re.compile(r"\d,\d")
_PERIOD = re.compile(r"\.(?!\d)")
# The official code hands the flag re.UNICODE to the `count` of `sub`: 32 periods, no more.
_PERIODS_REMOVED = int(re.UNICODE)

_COUNTED = "zero one two three four five six seven eight nine ten"
_NUMBER_WORDS = {word: str(number) for number, word in enumerate(_COUNTED.split())} | {"none": "0"}
_ARTICLES = frozenset({"a", "an", "the"})

# Ending -> stems of the contractions that the official table restores. Absent ones ("its",
# "shed", "well") are words of their own.
_CONTRACTIONS_BY_ENDING = {
    "n't": "ai are ca could did do does had has have is might must need ought sha should was"
    " were wo would",
    "n't've": "could had might should would",
    "'ve": "could I might must not should they we what where who would you",
    "'d": "he how it someone something there they where who you",
    "'d've": "he I it she somebody someone something there they we who you",
    "'ll": "how it somebody someone something they what who why you",
    "'s": "he how somebody someone that there what when where who why",
    "'re": "there they what why you",
    "'m": "I",
    "": "ma'am o'clock 'ow's'at 'twas y'all y'all'll y'all'd've",
}


def _forms_without_one_apostrophe(word: str) -> Iterator[str]:
    for position, letter in enumerate(word):
        if letter == "'":
            yield word[:position] + word[position + 1 :]


def _contraction_table() -> dict[str, str]:
    """Misspelt form -> contraction; a form lacks exactly one apostrophe of its contraction."""
    table = {
        form: stem + ending
        for ending, stems in _CONTRACTIONS_BY_ENDING.items()
        for stem in stems.split()
        for form in _forms_without_one_apostrophe(stem + ending)
    }
    # Three entries of the official table do not follow the rule; one even runs backwards.
    return table | {"let's": "let's", "she's": "she's", "somebody'd": "somebodyd"}


_CONTRACTIONS = _contraction_table()


def strip_answer(answer: str) -> str:
    """Line ends and tabs become spaces, outer white space goes: done to every answer."""
    return answer.replace("\n", " ").replace("\t", " ").strip()


def _without_signs(answer: str) -> str:
    # A sign vanishes where the answer has it next to a space, else it becomes a space. One
    # "1,000" anywhere in the answer makes *all* signs vanish, as the official code does.
    joins = _DIGIT_COMMA_DIGIT.search(answer) is not None
    replacement = {
        ord(sign): "" if joins or f"{sign} " in answer or f" {sign}" in answer else " "
        for sign in _ANSWER_SIGNS
    }
    return _PERIOD.sub("", answer.translate(replacement), count=_PERIODS_REMOVED)


def normalise_answer(answer: str) -> str:
    """Normalise one VQA answer as the official evaluator does (Antol et al. 2015).

    Signs go or become spaces, periods go unless a digit follows, the text is lower-cased,
    `none` and `zero` to `ten` become digits, articles go, and contractions get their apostrophe
    back. Follows the evaluation code published with VQA v2.0; its first release treated
    prediction and ground truth differently.
    """
    words = _without_signs(strip_answer(answer)).lower().split()
    numbered = (_NUMBER_WORDS.get(word, word) for word in words)
    return " ".join(_CONTRACTIONS.get(word, word) for word in numbered if word not in _ARTICLES)


# --- captions ----------------------------------------------------------------------------

# Characters that the Stanford tokenizer writes in its own way before or while it cuts.
_FOLDED = str.maketrans(
    {
        "\u2018": "`",  # single quotation marks
        "\u2019": "'",
        "\u201c": '"',  # double quotation marks
        "\u201d": '"',
        "\u00ab": '"',
        "\u00bb": '"',
        "\u2013": " -- ",  # dashes
        "\u2014": " -- ",
        "\u2026": " ... ",
        "\u00a3": " # ",  # pound sterling
        "\u20ac": " $ ",  # euro
        "\u00a2": " cents ",
        "\u00bc": " 1/4 ",
        "\u00bd": " 1/2 ",
        "\u00be": " 3/4 ",
        "\u00ad": None,  # soft hyphen
        "\u200b": " ",  # zero-width space
    }
)
_BRACKETS = {"(": "-lrb-", ")": "-rrb-", "[": "-lsb-", "]": "-rsb-", "{": "-lcb-", "}": "-rcb-"}
# pycocoevalcap drops these tokens. It also lists "-LRB-" and the like, but compares after
# lower-casing, so that brackets stay; runs such as "!!" stay too, being none of these.
_DROPPED = re.compile(r"""[?!,:;"'`]|''|``|\.+|-+""")

# Abbreviations whose period stays with them, found by asking the reference word by word.
_ABBREVIATIONS = r"""
    mr mrs ms dr st ave blvd rd sq mt ft jr sr prof rev hon capt col gen lt sgt maj adm gov sen
    rep pres inc ltd co corp bros dept univ assn etc vs al cf jan feb mar apr jun jul aug sept?
    oct nov dec mon tues? wed thu thurs fri tel ext est calif fla penn va conn ariz colo ind kan
    ky md mich minn mo mont neb nev okla tenn wis wyo ala ga vt bldg ste intl natl messrs mme
    mlle esq asst assoc atty comdr cmdr cpl pvt supt insp det mfg ct rt ph\.d
"""
_ABBREVIATION = "|".join(_ABBREVIATIONS.split())
_LETTER = r"[^\W\d_]"
_END = r"(?![^\W_])"  # no letter or digit follows

# One alternative per kind of token, tried in this order at each place in the sentence.
_TOKEN = re.compile(
    rf"""
      </?{_LETTER}[^<>\s]*>                                      # <unk>
    | https?://\S+ | www\.\S*\w | \w+@\w+(?:\.\w+)*              # addresses
    | (?-i:[A-Z]+&[A-Z]+)                                        # AT&T, but b & w
    | (?:{_LETTER}\.)*{_LETTER}\.{_END}                          # U.S., plan b.
    | (?:{_ABBREVIATION})\.{_END}                                # St.
    | (?:nos?|figs?|pp|ca)\.(?=\s?\d)                            # No. 5, but "no" at an end
    | {_LETTER}+\.(?=,)
    | can(?=not{_END}) | (?:gon|wan)(?=na{_END}) | got(?=ta{_END}) | (?:lem|gim)(?=me{_END})
    | 't(?=(?:is|was){_END})                                     # 't is, 't was
    | {_LETTER}+?(?=n't{_END}) | n't{_END}                       # do n't
    | [yj]'(?={_LETTER}{{2}})                                    # y' all
    | [dlno]'(?!(?:re|ve|ll){_END}){_LETTER}{{2,}}               # o'clock
    | (?:ma'am|ne'er|c'mon|li'l|ya'all){_END} | ol'
    | '(?:s|d|m|re|ve|ll|em|cause|till?){_END} | 'n' | 'n{_END}
    | (?<!\d)'\d\ds?{_END}(?!')                                  # the '60s, but 5'10"
    | [#@]{_LETTER}+
    | [-+]?\d*(?:[.,:]\d+)+(?:(?<!:\d\d)-[^\W_]+)*               # 3.5-inch, 10:30 - ish
    | [-+]\d+
    | [^\W_]+(?:[-/_][^\W_]+|(?<!\d)\.{_LETTER}[^\W_]*)*         # words: two-story, and/or
    | \.{{3,5}} | -{{2,}} | [!?]+ | \*+ | _+ | ''                # runs of one sign
    | [:;=]-?[()]                                                # :-)
    | \S
    """,
    re.VERBOSE | re.IGNORECASE,
)


def tokenize_caption(sentence: str) -> list[str]:
    """Cut a caption into the tokens that pycocoevalcap's PTB tokenizer gives, without Java.

    Lower case; clitics apart (`do n't`, `woman 's`); hyphenated words, decimals and
    abbreviations whole; plain punctuation dropped. Written to agree with the tokenizer on captions
    as people and models write them; mark-up entities and most emoticons are beyond it.
    """
    # Characters outside the basic plane (emoji) are nothing to the reference but a gap.
    plain = re.sub("[\U00010000-\U0010ffff]", " ", sentence.translate(_FOLDED))
    tokens = (match.group().lower() for match in _TOKEN.finditer(plain))
    return [
        "".join(_BRACKETS.get(sign, sign) for sign in token)
        for token in tokens
        if not _DROPPED.fullmatch(token)
    ]
