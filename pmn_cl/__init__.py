"""The core of pmn-bench: tasks, stores, streams of samples, metrics and the command line.

Importing this package imports nothing heavy: every command loads what it needs itself.
"""

__version__ = "0.1.0"
