"""What `pmn-bench prepare visual-genome`, `vqa` and `coco` do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.worlds.visual_genome.annotations.coco import CocoOptions, prepare_coco
from benchmarks.worlds.visual_genome.annotations.genome.preparation import (
    GenomeOptions,
    prepare_genome,
)
from benchmarks.worlds.visual_genome.annotations.vqa.preparation import VqaOptions, prepare_vqa
from pmn_cl.console import console, show_progress


def genome_command(
    source: Path, out: Path, vocab: Path | None, coco: tuple[Path, ...], **options: Any
) -> None:
    """Prepare Visual Genome and print what was made."""
    chosen = GenomeOptions(**options)
    prepare_genome(source, out, vocab, list(coco), chosen, show_progress, console().print)


def vqa_command(source: Path, out: Path, glove: Path | None, **options: Any) -> None:
    """Prepare VQA 2.0 and print what was made."""
    prepare_vqa(source, out, glove, VqaOptions(**options), show_progress, console().print)


def coco_command(source: Path, out: Path, glove: Path | None, **options: Any) -> None:
    """Prepare COCO's captions and print what was made."""
    prepare_coco(source, out, glove, CocoOptions(**options), show_progress, console().print)
