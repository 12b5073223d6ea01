"""Preparing the paper's data: published files become one folder of stores."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import click

from pmn_cl.cli.options import gathers, seed_type
from pmn_cl.cli.worlds import prepare

if TYPE_CHECKING:
    from benchmarks.worlds.visual_genome.annotations.coco import CocoOptions
    from benchmarks.worlds.visual_genome.annotations.genome.preparation import GenomeOptions
    from benchmarks.worlds.visual_genome.annotations.vqa.preparation import VqaOptions
    from benchmarks.worlds.visual_genome.features.request import Request

Body: TypeAlias = Callable[..., None]  # of a command
source_type = click.Path(path_type=Path)
out_option = click.option(
    "--out",
    required=True,
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder for what is prepared; all parts of one world go into the same.",
)


def _features_request() -> type[Request]:
    from benchmarks.worlds.visual_genome.features.request import Request

    return Request


def _genome_options() -> type[GenomeOptions]:
    from benchmarks.worlds.visual_genome.annotations.genome.preparation import GenomeOptions

    return GenomeOptions


def _vqa_options() -> type[VqaOptions]:
    from benchmarks.worlds.visual_genome.annotations.vqa.preparation import VqaOptions

    return VqaOptions


def _coco_options() -> type[CocoOptions]:
    from benchmarks.worlds.visual_genome.annotations.coco import CocoOptions

    return CocoOptions


@prepare.command("features", short_help="Region features of published files, in one store.")
@click.argument("sources", nargs=-1, type=source_type)
@click.option(
    "--vg",
    multiple=True,
    type=source_type,
    metavar="SOURCE",
    help="A source whose images have ids of Visual Genome; as often as needed.",
)
@click.option(
    "--format",
    "form",
    metavar="FORMAT",
    help="bottom_up, lxmert, hdf5, npy, or a reader of yours as module:Class, for all sources. "
    " [default: looked at and recognised]",
)
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    help="Only the first images, so many with ids of COCO and so many with ids of Visual Genome.",
)
@click.option(
    "--images",
    multiple=True,
    type=source_type,
    metavar="FILE",
    help="Only the images of a list: a line each, an id of COCO or `vg` and one of Visual Genome; "
    "or a published JSON file (questions, captions, image_data.json, …).",
)
@click.option(
    "--simulate",
    is_flag=True,
    help="Make up features for the images of --image-data that have none.",
)
@click.option(
    "--image-data",
    multiple=True,
    type=source_type,
    metavar="FILE",
    help="With --simulate: images to make up, a list as for --images.",
)
@click.option(
    "--objects",
    multiple=True,
    type=source_type,
    metavar="FILE",
    help="With --simulate: Visual Genome's objects.json or attributes.json, to place boxes by.",
)
@click.option(
    "--dimensions",
    type=click.IntRange(1, 65536),
    help="With --simulate: length of a feature vector, where no source says.  [default: 2048]",
)
@click.option("--seed", type=seed_type, default=0, show_default=True, help="With --simulate.")
@out_option
@gathers(_features_request)
def features(out: Path, request: Request) -> None:
    """Put region features of published files into FOLDER/features.h5.

    SOURCEs hold images with ids of COCO, those after --vg images with ids of Visual Genome. Their
    form is recognised:

    \b
      bottom_up  TSV of bottom-up attention, 10 to 100 boxes or 36
      lxmert     LXMERT's TSV with ten fields, height before width
      hdf5       train36.hdf5 with train36_imgid2idx.pkl beside it
      npy        a folder of NAME.npy and NAME_info.npy

    Kept are at most 36 boxes of an image, the most confident where the form says, without those
    that overlap a kept one by more than 0.7 (IoU). Rows that are cut off, damaged or there twice
    are left out, counted and listed in FOLDER/features.skipped.txt.

    Takes twice the disk space of the result while it works (147 kB for an image with 2048
    features). Cut off, the same command goes on where it was; when all is done it says so.

    \b
    Examples:
      pmn-bench prepare features trainval_36.tsv --vg vg_36.tsv --out paper
      pmn-bench prepare features trainval_36.tsv --limit 100 --out first_try
      pmn-bench prepare features --simulate --image-data image_data.json \\
          --objects objects.json --out made_up
    """
    from benchmarks.worlds.visual_genome.features.command import features_command

    features_command(request, out)


annotated_type = click.Path(path_type=Path, file_okay=False)
source_argument = click.argument("source", type=annotated_type)
held_out_option = click.option(
    "--held-out",
    type=click.FloatRange(0, 40, min_open=True),
    default=5.0,
    show_default=True,
    metavar="PERCENT",
    help="Of the images: so many for val, and where test is not a part of COCO's, as many for it.",
)
train_on_option = click.option(
    "--train-on",
    type=click.Choice(["train", "train+val"]),
    default="train",
    show_default=True,
    help="train: learn from train2014, test on val2014. train+val: learn from both, for the "
    "evaluation server; then test is a part of them, too.",
)
glove_option = click.option(
    "--glove",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="A GloVe text file (glove.6B.300d.txt, …): vectors that words start from.",
)
limit_option = click.option(
    "--limit",
    type=click.IntRange(min=3),
    metavar="N",
    help="Only the first images that have all that is needed, for a first try.",
)


def _number(
    name: str, default: int, said: str, *, least: int = 1, most: int | None = None
) -> Callable[[Body], Body]:
    """Return an option for a whole number."""
    limits = click.IntRange(least, most)
    return click.option(name, type=limits, default=default, show_default=True, help=said)


@prepare.command("visual-genome", short_help="Objects, attributes, relations of Visual Genome.")
@source_argument
@click.option(
    "--vocab",
    type=annotated_type,
    metavar="DIR",
    help="Folder with objects_vocab.txt, attributes_vocab.txt and relations_vocab.txt, as "
    "published with bottom-up-attention.  [default: SOURCE]",
)
@click.option(
    "--coco",
    multiple=True,
    type=source_type,
    metavar="PATH",
    help="Files, or folders with files, that name COCO's val2014 and test2015 images: "
    "captions_val2014.json or VQA's val2014 questions; image_info_test2015.json or VQA's test2015 "
    "questions.",
)
@click.option(
    "--version",
    type=click.Choice(["auto", "1.0", "1.2", "1.4"]),
    default="auto",
    show_default=True,
    help="Which files to take where there are several: objects.json before objects_v1_2.json, or "
    "the other way round.",
)
@held_out_option
@click.option(
    "--other-vocab", is_flag=True, help="Take vocabularies that are not of 1600, 400 and 20 lines."
)
@click.option(
    "--skip-leakage-check",
    is_flag=True,
    help="Learn from images without knowing whether COCO or VQA test on them. Scores on captions "
    "and questions are then worth less.",
)
@limit_option
@out_option
@gathers(_genome_options, "options")
def visual_genome(
    source: Path, out: Path, vocab: Path | None, coco: tuple[Path, ...], options: GenomeOptions
) -> None:
    """Put Visual Genome's annotations into FOLDER/genome.h5: the tasks obj, att and rel.

    SOURCE is the folder with image_data.json, objects.json, attributes.json and relationships.json
    of any version, and the alias files where you have them. FOLDER/features.h5 has to be there:
    samples are about its boxes. A box gets the class and the attributes of the object that it
    overlaps most, by more than 0.5 (IoU); a relation counts where both its ends overlap a box by
    more than 0.7.

    No image that is one of COCO's val2014 or test2015 images is used, so image_data.json must say
    its coco_id, and --coco where the lists of those images are. Both missing, it refuses.

    The same command on the same files finds that all is there.

    \b
    Examples:
      pmn-bench prepare visual-genome vg --vocab vocab --coco vqa --out paper
      pmn-bench prepare visual-genome vg --vocab vocab --coco vqa --limit 100 --out first_try
    """
    from benchmarks.worlds.visual_genome.annotations.commands import genome_command

    genome_command(source, out, vocab, coco, options)


@prepare.command("vqa", short_help="Questions of VQA 2.0, and some made of Visual Genome.")
@source_argument
@train_on_option
@held_out_option
@_number(
    "--min-answers", 9, "Answers are those that are the commonest of so many training questions."
)
@_number("--min-words", 3, "Words are those that training questions have so often.")
@_number("--longest", 14, "Words of a question; the rest is cut.", least=2, most=100)
@click.option(
    "--synthetic/--no-synthetic",
    default=True,
    show_default=True,
    help="Make counting questions, and questions of relations, of FOLDER/genome.h5.",
)
@glove_option
@limit_option
@out_option
@gathers(_vqa_options, "options")
def vqa(source: Path, out: Path, glove: Path | None, options: VqaOptions) -> None:
    """Put VQA 2.0's questions into FOLDER/vqa.h5: the tasks cnt and vqa.

    SOURCE is the folder with the questions and annotations of train2014 and val2014, and
    test2015's questions where you have them: they are kept for the evaluation server. Answers are
    scored as the official evaluation does. Questions how many, with answers 0 to 12, are cnt's.

    Questions made of Visual Genome's training images are kept apart. A stream adds them with
    `{task: cnt, extra: obj}`, as in the paper, and `{task: vqa, extra: rel}`, as in its control.
    FOLDER/genome.h5 has to be there for that.

    \b
    Examples:
      pmn-bench prepare vqa vqa_v2 --glove glove.6B.300d.txt --out paper
      pmn-bench prepare vqa vqa_v2 --train-on train+val --out paper_for_the_server
      pmn-bench prepare vqa vqa_v2 --no-synthetic --limit 100 --out first_try
    """
    from benchmarks.worlds.visual_genome.annotations.commands import vqa_command

    vqa_command(source, out, glove, options)


@prepare.command("coco", short_help="Captions of COCO.")
@source_argument
@train_on_option
@held_out_option
@_number("--min-words", 5, "Words are those that training captions have so often.")
@_number(
    "--longest",
    16,
    "Words of a caption to learn; the rest is cut. 16 is the paper's T.",
    least=2,
    most=16,
)
@glove_option
@limit_option
@out_option
@gathers(_coco_options, "options")
def coco(source: Path, out: Path, glove: Path | None, options: CocoOptions) -> None:
    """Put COCO's captions into FOLDER/coco.h5: the task cap.

    SOURCE is the folder with captions_train2014.json and captions_val2014.json: the split of the
    2014 challenge, as in the paper. Captions are scored against all that people wrote of an image,
    every word of them.

    \b
    Examples:
      pmn-bench prepare coco annotations --glove glove.6B.300d.txt --out paper
      pmn-bench prepare coco annotations --limit 100 --out first_try
    """
    from benchmarks.worlds.visual_genome.annotations.commands import coco_command

    coco_command(source, out, glove, options)
