"""Answers against the official evaluator's behaviour, tokens against two other tokenizers."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pmn_cl.tasks import text
from pmn_cl.tasks.text import normalise_answer, strip_answer, tokenize_caption


def samples(*parts: str) -> Path:
    """Path of a real sample file; the test is skipped where there are none."""
    root = os.environ.get("PMN_BENCH_SAMPLES")
    if not root:
        pytest.skip("PMN_BENCH_SAMPLES is not set: no real annotations to compare on")
    path = Path(root).joinpath(*parts)
    if not path.exists():
        pytest.skip(f"{path} is missing from the samples")
    return path


def real_captions() -> list[str]:
    return [
        record["caption"].replace("\n", " ")
        for part in ("train", "val")
        for record in json.loads(
            samples("coco_captions", f"captions_{part}2014.json").read_text(encoding="utf-8")
        )["annotations"]
    ]


def real_questions_and_answers() -> list[str]:
    images = json.loads(samples("visual_genome", "question_answers.json").read_text("utf-8"))
    return [qa[kind] for image in images for qa in image["qas"] for kind in ("question", "answer")]


# Worked by hand from the official rules.
@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("Yes", "yes"),
        ("The Dog.", "dog"),
        ("an apple a day", "apple day"),
        ("none", "0"),
        ("Zero", "0"),
        ("ten", "10"),
        ("eleven", "eleven"),
        ("twenty-one", "twenty 1"),  # the hyphen becomes a space, then "one" is a word
        ("dont", "don't"),
        ("shouldnt've", "shouldn't've"),
        ("somebody'd", "somebodyd"),  # this entry runs backwards
        ("its", "its"),
        ("Im", "im"),  # the table says "Im", but the words are lower-cased before
        ("black/white", "black white"),
        ("black/ white", "black white"),
        ("a-b -c", "ab c"),  # one hyphen beside a space: both hyphens vanish
        ("yes,no", "yes no"),
        ("1,000", "1000"),
        ("1,000 red/blue", "1000 redblue"),  # digit,comma,digit: the slash vanishes too
        ("3.5", "3.5"),
        ("3.5.", "3.5"),
        ("p.m.", "pm"),
        ("route .5", "route .5"),
        ("it's 5:30", "it's 5:30"),  # neither apostrophe nor colon is in the list of signs
        ("\tred\nand  blue ", "red and blue"),
        ("", ""),
        ("the", ""),
    ],
)
def test_normalise_answer(answer: str, expected: str) -> None:
    assert normalise_answer(answer) == expected


def test_only_32_periods_go() -> None:
    # re.UNICODE is 32 and stands where `count` is expected in the official code.
    assert normalise_answer("x." * 40) == "x" * 32 + "x." * 8


def test_contractions_are_the_official_ones() -> None:
    # Digest of the table in the official evaluator, as JSON with sorted keys.
    table = json.dumps(text._CONTRACTIONS, sort_keys=True)
    assert len(text._CONTRACTIONS) == 120
    assert hashlib.sha256(table.encode()).hexdigest() == (
        "52771f672b95913f862aae058e42219f9e1e4d7af64475a5cdf394301acf67a9"
    )


def test_strip_answer_leaves_the_words_alone() -> None:
    assert strip_answer(" The\tDog.\n") == "The Dog."


@given(st.text(max_size=40))
@settings(deadline=None, max_examples=100)
def test_normalised_answers_have_single_spaces_and_no_article(answer: str) -> None:
    normal = normalise_answer(answer)
    assert normal == " ".join(normal.split())
    assert not {"a", "an", "the"} & set(normal.split())


# Each right-hand side was printed by Stanford's PTBTokenizer 3.4.1 as pycocoevalcap calls it.
@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        ("A man, riding a horse.", "a man riding a horse"),
        ("The woman's dogs' bowls", "the woman 's dogs bowls"),
        ("They don't and can't", "they do n't and ca n't"),
        ("I cannot say he'd've won't", "i can not say he 'd 've wo n't"),
        ("wanna gonna gotta gimme lemme", "wan na gon na got ta gim me lem me"),
        ("a two-story T-shirt -- or - dog--cat", "a two-story t-shirt or dog cat"),
        ("5:30pm 10:30 3,000 3.5 1/2 .25 -5", "5:30 pm 10:30 3,000 3.5 1/2 .25 -5"),
        ("$5 50% #1 #fun", "$ 5 50 % # 1 #fun"),
        ("Mr. Smith on Elm St. in the U.S.", "mr. smith on elm st. in the u.s."),
        ("It is plan b.", "it is plan b."),
        ("No. 5 says no.", "no. 5 says no"),
        ("wait... what....", "wait what"),
        ("\"Hello\" 'hello' \u201chello\u201d \u2018it\u2019s\u2019", "hello hello hello it 's"),
        ("(big) [red] {x}", "-lrb- big -rrb- -lsb- red -rsb- -lcb- x -rcb-"),
        ("what?! no!! hi!", "what ?! no !! hi"),
        ("five o'clock, ma'am, y'all", "five o'clock ma'am y' all"),
        ("the '60s and 1950's, 5'10\" tall", "the '60s and 1950 's 5 10 tall"),
        ("rock 'n' roll", "rock 'n' roll"),
        ("street.A man and/or b&w AT&T", "street.a man and/or b & w at&t"),
        ("a <unk> café \u2013 naïve\u2026 \u00bd \u00a33", "a <unk> café naïve 1/2 # 3"),
        ("a\U0001f600b", "a b"),
        ("", ""),
    ],
)
def test_tokenize_caption(sentence: str, expected: str) -> None:
    assert tokenize_caption(sentence) == expected.split()


def test_tokens_equal_nltk_on_real_captions() -> None:
    treebank = pytest.importorskip("nltk.tokenize.treebank").TreebankWordTokenizer()
    punctuation = {"''", "'", "``", "`", ".", "?", "!", ",", ":", "-", "--", "...", ";"}
    captions = real_captions()
    assert len(captions) >= 200
    for caption in captions:
        tokens = treebank.tokenize(caption.lower())
        expected = [token for token in tokens if token not in punctuation]
        assert tokenize_caption(caption) == expected


def test_tokens_equal_the_java_tokenizer_on_real_sentences() -> None:
    module = pytest.importorskip("pycocoevalcap.tokenizer.ptbtokenizer")
    if shutil.which("java") is None:
        pytest.skip("there is no java to run pycocoevalcap's tokenizer")
    if not os.access(Path(module.__file__).parent, os.W_OK):
        pytest.skip("pycocoevalcap writes a file into its own folder, which is read-only here")
    sentences = real_captions() + real_questions_and_answers()
    tokenized = module.PTBTokenizer().tokenize(
        {i: [{"caption": sentence}] for i, sentence in enumerate(sentences)}
    )
    differing = [
        (sentence, tokenize_caption(sentence), tokenized[i][0].split())
        for i, sentence in enumerate(sentences)
        if tokenize_caption(sentence) != tokenized[i][0].split()
    ]
    assert differing == []
