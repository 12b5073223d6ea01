"""The core of pmn-bench: tasks, stores, streams of samples, metrics, runs and the command line.

``pmn_cl.run(stream)`` and ``pmn_cl.Results.read(folder)`` are for notebooks. Importing this
package imports nothing heavy: these two load what they need when they are first asked for.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pmn_cl.api import Results as Results
    from pmn_cl.api import run as run

__version__ = "0.1.0"
_IN_NOTEBOOKS = ("run", "Results")


def __getattr__(name: str) -> Any:
    if name in _IN_NOTEBOOKS:
        from pmn_cl import api

        return getattr(api, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
