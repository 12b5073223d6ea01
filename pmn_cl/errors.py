"""The one error class for mistakes that are the user's to mend.

The command line prints these without a traceback and exits with 2. Anything else that
escapes is a defect of ours and keeps its traceback.
"""

from __future__ import annotations

from collections.abc import Iterable


class UserError(Exception):
    """What was found, what was expected, and what to do next, in words for the user."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return ``"; did you mean 'x'?"`` for the nearest known name, or nothing."""
    from difflib import get_close_matches  # every command imports this file, few make mistakes

    near = get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f"; did you mean {near[0]!r}?" if near else ""
