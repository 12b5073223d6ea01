"""How the program ends while a background thread still works."""

from __future__ import annotations

import atexit
import os
import sys
import threading

_unwaited: list[threading.Thread] = []


def do_not_wait_for(thread: threading.Thread) -> None:
    """Let the program end without a daemon thread that still works."""
    _unwaited.append(thread)


def leave(code: int, *, now: bool = False) -> None:
    """End the process now where such a thread still works, or for another reason; else return.

    Python would end the thread in the middle of what it does. In C++, of which MLflow's libraries
    have a lot, that aborts the whole process, with a signal in the place of its exit code.
    """
    if now or any(thread.is_alive() for thread in _unwaited):
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
