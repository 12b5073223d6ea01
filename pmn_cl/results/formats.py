"""Tables as text: for documents, papers, spreadsheets and programs.

For people a row is a strategy or a run, with its numbers as they are read. For spreadsheets and
programs it is a record: one number, with what it is, in which direction and how sure.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

Format: TypeAlias = Literal["table", "md", "csv", "json", "tex"]
Record: TypeAlias = Mapping[str, Any]

_TEX = {
    **{letter: f"\\{letter}" for letter in "_%&#${}"},
    **{"±": r"$\pm$", "→": r"$\to$", "−": r"$-$", "<": r"$<$", ">": r"$>$", "×": r"$\times$"},
    **{"Ω": r"$\Omega$", "Ψ": r"$\Psi$", "Δ": r"$\Delta$", "≥": r"$\geq$", "≤": r"$\leq$"},
    **{"\\": r"\textbackslash{}", "^": r"\^{}", "~": r"\~{}", "…": r"\ldots{}"},
}


def as_markdown(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table for a README."""
    lines = [titles, ["---"] * len(titles), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def as_latex(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table for a paper (needs booktabs)."""
    top, *body = [" & ".join(map(_tex, line)) + r" \\" for line in [titles, *rows]]
    begin = rf"\begin{{tabular}}{{l{'r' * (len(titles) - 1)}}}"
    lines = [begin, r"\toprule", top, r"\midrule", *body, r"\bottomrule", r"\end{tabular}"]
    return "\n".join(lines) + "\n"


def as_csv(records: Sequence[Record]) -> str:
    """Return records for spreadsheets; what is not known is empty."""
    text = io.StringIO()
    names = dict.fromkeys(name for record in records for name in record)
    writer = csv.DictWriter(text, list(names), lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    return text.getvalue()


def as_json(data: Any) -> str:
    """Return data for programs."""
    return json.dumps(data, indent=1) + "\n"


def _tex(text: str) -> str:
    return "".join(_TEX.get(letter, letter) for letter in text)
