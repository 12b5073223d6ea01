"""What several commands take."""

from __future__ import annotations

from pathlib import Path

import click

STREAM_HELP = "STREAM is a YAML file, or the name of one that comes with pmn-bench (stream.yaml)."
CACHE_HELP = "Folder for prepared worlds.  [default: $PMN_BENCH_CACHE, else ~/.cache/pmn-bench]"
cache_type = click.Path(path_type=Path, file_okay=False)
seed_type = click.IntRange(0, 2**32 - 1)
results_folder = click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
