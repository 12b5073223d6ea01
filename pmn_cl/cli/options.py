"""What several commands take."""

from __future__ import annotations

from collections.abc import Callable
from functools import update_wrapper
from pathlib import Path
from typing import Any

import click

STREAM_HELP = "STREAM is a YAML file, or the name of one that comes with pmn-bench (stream.yaml)."
CACHE_HELP = "Folder for prepared worlds.  [default: $PMN_BENCH_CACHE, else ~/.cache/pmn-bench]"
cache_type = click.Path(path_type=Path, file_okay=False)
seed_type = click.IntRange(0, 2**32 - 1)
results_folder = click.argument("folder", type=click.Path(path_type=Path, file_okay=False))


def gathers(
    load: Callable[[], type[Any]], name: str = "request"
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Hand a command one typed object, made of those of its options that the class has fields for.

    The class is loaded when the command runs, for it may take long to import.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        def gathered(**given: Any) -> None:
            from dataclasses import fields

            kind = load()
            own = {field.name for field in fields(kind)} & given.keys()
            rest = {option: value for option, value in given.items() if option not in own}
            command(**rest, **{name: kind(**{option: given[option] for option in own})})

        return update_wrapper(gathered, command)

    return decorate
