"""What was kept, repaired and dropped on the way from published files to a store, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable
from typing import Any

_SHOWN = 5  # of those that something happened to
_LONGEST_SHOWN = 40  # characters of a name out of a file


def shown(value: object) -> str:
    """Return something out of a file so that any terminal can show it on a line."""
    text = "".join(sign if sign.isprintable() else "�" for sign in str(value)[: _LONGEST_SHOWN + 1])
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"


class Tally:
    """Counts by reason, with what each happened to: image ids, names of relations, …"""

    def __init__(self) -> None:
        self._seen: dict[str, Counter[Hashable]] = {}

    def note(self, reason: str, what: Hashable = "", times: int = 1) -> None:
        """Count that something happened; nothing is kept of zero times."""
        if times:
            self._seen.setdefault(reason, Counter())[what] += times

    def note_all(self, reason: str, what: Iterable[Hashable]) -> None:
        """Count one for each of these."""
        for one in what:
            self.note(reason, one)

    def __getitem__(self, reason: str) -> int:
        return sum(self._seen.get(reason, Counter()).values())

    def as_header(self) -> dict[str, Any]:
        """Return the counts with the commonest examples, for a store's header."""
        return {
            reason: {"count": self[reason], "of": [shown(what) for what in self._examples(reason)]}
            for reason in self._seen
        }

    def lines(self) -> list[str]:
        """Return a line for each reason, in the order in which they came up."""
        found = []
        for reason in self._seen:
            examples = [shown(what) for what in self._examples(reason)]
            more = ", …" if len(self._seen[reason]) > len(examples) else ""
            which = f" ({', '.join(examples)}{more})" if examples else ""
            found.append(f"{self[reason]:,} {reason}{which}")
        return found

    def _examples(self, reason: str) -> list[Hashable]:
        return [what for what, _ in self._seen[reason].most_common(_SHOWN) if what != ""]


class Summary:
    """What a command made: figures, the paper's beside ours, and what was repaired or dropped."""

    def __init__(self) -> None:
        self.made: dict[str, int | str] = {}
        self.paper: dict[str, str] = {}  # the publication's figure for the same
        self.tally = Tally()
        self.warnings: list[str] = []

    def add(self, what: str, figure: int | str, paper: str = "") -> None:
        """Keep a figure, with the publication's where it gives one."""
        self.made[what] = figure
        if paper:
            self.paper[what] = paper

    def as_header(self) -> dict[str, Any]:
        """Return all of it for a store's header."""
        return {
            "made": self.made,
            "paper": self.paper,
            "noted": self.tally.as_header(),
            "warnings": self.warnings,
        }

    def lines(self) -> list[str]:
        """Return all of it for people."""
        width = max(map(len, self.made), default=0)
        figures = [f"{n:,}" if isinstance(n, int) else n for n in self.made.values()]
        column = max(map(len, figures), default=0)
        made = [
            f"  {what:<{width}}  {figure:>{column}}"
            + (f"  (paper: {self.paper[what]})" if what in self.paper else "")
            for what, figure in zip(self.made, figures, strict=True)
        ]
        noted = self.tally.lines()
        dropped = ["repaired, left out or worth knowing:", *(f"  {n}" for n in noted)]
        return [*made, *(dropped if noted else []), *(f"WARNING: {w}" for w in self.warnings)]
