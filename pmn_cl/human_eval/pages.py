"""What goes on a judge's page: questions, pictures, and explanations as A and B."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from io import BytesIO
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from pmn_cl.human_eval.rounds import Round, Sheet, ShownExplanation
from pmn_cl.human_eval.sheets import FORMAT
from reports.human_eval import judge_page

_SIDE = 480  # pixels at most: about as large as it is shown


def picture_uri(pixels: NDArray[np.uint8]) -> str:
    """Return a picture as an address that holds it, in some 10 KB."""
    # A palette of few colours would spend them all on an uneven ground, and lose those of small
    # things that questions are about; with many, PNG takes three times as much as WebP.
    picture = Image.fromarray(pixels)
    picture.thumbnail((_SIDE, _SIDE))
    file = BytesIO()
    picture.save(file, "WEBP", quality=70, method=2)
    return f"data:image/webp;base64,{base64.b64encode(file.getvalue()).decode()}"


def page_of(key: Round, sheet: Sheet, pictures: Mapping[int, str]) -> str:
    """Return the page of one judge, whole."""
    return judge_page(content_of(key, sheet, pictures))


def content_of(key: Round, sheet: Sheet, pictures: Mapping[int, str]) -> dict[str, Any]:
    """Return what a page shows. Nothing in it depends on which explanation is PMN's but the letter.

    Pictures are there once for all questions about their scene.
    """
    questions = {question.id: question for question in key.questions}
    scenes = sorted({questions[name].scene for name in sheet.questions})
    asked = []
    for name, pmn_is_a in zip(sheet.questions, sheet.pmn_is_a, strict=True):
        question = questions[name]
        sides = [question.pmn, question.baseline]
        a, b = sides if pmn_is_a else sides[::-1]
        place = scenes.index(question.scene)
        shown = {"A": _shown(a), "B": _shown(b)}
        asked.append({"id": name, "text": question.text, "picture": place, **shown})
    return {
        "format": FORMAT,
        "round": key.digest,
        "judge": sheet.judge,
        "questions": asked,
        "pictures": [pictures[scene] for scene in scenes],
    }


def _shown(side: ShownExplanation) -> dict[str, Any]:
    # Boxes by number: their order would reveal a model that goes from box to box.
    boxes = [[number, *(round(edge, 4) for edge in box)] for number, box in sorted(side.boxes)]
    return {"sentence": side.sentence, "answer": side.answer, "boxes": boxes}
