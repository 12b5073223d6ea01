"""Leaving while a thread that nobody waits for still works."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import atexit, threading, time
from pmn_cl.mlflow_mirror.exit import do_not_wait_for, leave

atexit.register(print, "left in order")
thread = threading.Thread(target=time.sleep, args=({seconds},), daemon=True)
thread.start()
do_not_wait_for(thread)
time.sleep(0.1)
print("said before")
leave(3)
print("went on")
"""


@pytest.mark.parametrize(
    ("seconds", "code", "said"),
    [
        (600, 3, ["said before", "left in order"]),
        (0, 0, ["said before", "went on", "left in order"]),
    ],
)
def test_nobody_waits_for_a_thread_and_nothing_said_is_lost(
    seconds: int, code: int, said: list[str]
) -> None:
    given = [sys.executable, "-c", PROGRAM.format(seconds=seconds)]
    ended = subprocess.run(given, capture_output=True, text=True)
    assert (ended.returncode, ended.stdout.splitlines(), ended.stderr) == (code, said, "")
