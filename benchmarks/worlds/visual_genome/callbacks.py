"""What the long preparations are given to show how far they are."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from pmn_cl.progress import ProgressCallback

Watch = Callable[[str], AbstractContextManager[ProgressCallback]]  # shows the progress of a step
Echo = Callable[[str], None]  # prints a line
