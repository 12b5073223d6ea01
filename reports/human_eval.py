"""The page on which one judge grades explanations: one file, for any browser, without a network.

What it holds comes from outside and is only ever shown as text: it stands in the page as JSON, and
the page's own script puts it in place with ``textContent``. The page may run nothing else: its
Content-Security-Policy names script and style by their hashes, and allows no address at all.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

_HERE = Path(__file__).parent
GRADES = {  # the paper's scale, and what each grade means here
    0: ("very bad", "nothing in it is right, or it cannot be followed"),
    1: ("bad", "most of it is wrong"),
    2: ("satisfactory", "partly right: some steps hold, others are wrong or missing"),
    3: ("good", "right, but for a detail"),
    4: ("very good", "every step is right and leads to the right answer"),
}


def judge_page(content: Mapping[str, Any]) -> str:
    """Return the page for what one judge is given: round, judge, questions and pictures."""
    loader = FileSystemLoader(_HERE, encoding="utf-8")
    pages = Environment(loader=loader, autoescape=True, undefined=StrictUndefined)
    style, script = ((_HERE / f"human_eval.{kind}").read_text("utf-8") for kind in ("css", "js"))
    policy = (
        f"default-src 'none'; img-src data:; style-src {_hash(style)}; "
        f"script-src {_hash(script)}; base-uri 'none'; form-action 'none'"
    )
    return pages.get_template("human_eval.html").render(
        judge=content["judge"],
        round=content["round"],
        count=len(content["questions"]),
        grades=GRADES,
        policy=policy,
        style=Markup(style),
        script=Markup(script),
        content=Markup(_inert(content)),
    )


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def _inert(content: Mapping[str, Any]) -> str:
    """Return JSON that no HTML parser can take for markup, whatever the texts are."""
    text = json.dumps(content, separators=(",", ":"))  # ASCII alone, also for line separators
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
