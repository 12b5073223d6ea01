"""Where the command begins: it is ready for Ctrl-C before it imports anything."""

from __future__ import annotations

import sys


def program() -> None:
    """Run the command line as a program of its own."""
    try:
        from pmn_cl.cli.main import main
        from pmn_cl.console import INTERRUPTED
        from pmn_cl.mlflow_mirror.exit import leave

        try:
            main()
        except SystemExit as ending:
            code = int(ending.code or 0)
            # Python would end by a signal instead, where Ctrl-C came in the middle of an import.
            leave(code, now=code == INTERRUPTED)
            raise
    except KeyboardInterrupt:  # before or after what commands do
        print("\npmn-bench: interrupted", file=sys.stderr)
        sys.exit(130)
