"""How long work reports how far it is; who shows that is up to the caller."""

from __future__ import annotations

from collections.abc import Callable

ProgressCallback = Callable[[int, int], None]  # how much is done, of how much
