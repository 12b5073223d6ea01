"""What all networks with a head per task start from: words' vectors, and weights of a scale."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from made_prepared import NAMES, make_prepared
from torch import Tensor

from baselines.common.heads import SentenceHead
from baselines.common.network import HeadsStrategy
from baselines.hard_sharing import HardSharing
from baselines.multinet import Multinet
from baselines.pnn import ProgressiveColumns
from benchmarks.stream import Stream
from pmn_cl.config.stream import parse_stream
from pmn_cl.modules.layers import QuestionEncoder, ScaledLinear, SoftAttention
from pmn_cl.modules.sizes import SIZES

METHODS = [HardSharing, ProgressiveColumns, Multinet]
QUESTION, CAPTION = NAMES["vqa.h5"]["question words"], NAMES["coco.h5"]["caption words"]


def experiences(folder: Path, vectors: int) -> dict[str, Any]:
    """Training experiences of a world whose words have vectors of so many numbers."""
    given = {
        **{"name": "words", "tasks": ["cap", "cnt", "vqa"]},
        "world": {"name": "visual_genome", "path": str(make_prepared(folder, vectors=vectors))},
        **{"strategies": ["constant"], "seeds": [0]},
    }
    benchmark = Stream.open(parse_stream(given), 0).as_avalanche()
    return {experience.task.name: experience for experience in benchmark.streams["train"]}


def prepared(method: type[HeadsStrategy], *some: Any) -> Any:
    torch.manual_seed(0)
    strategy = method(seed=0)
    for experience in some:
        strategy.prepare(experience)
    return strategy.network


def words_of(network: Any, kind: type) -> list[Tensor]:
    return [part.words.weight for part in network.modules() if isinstance(part, kind)]


@pytest.mark.parametrize("method", METHODS)
def test_words_start_from_the_vectors_of_the_world(
    method: type[HeadsStrategy], tmp_path: Path
) -> None:
    width = SIZES["small"].word
    known = experiences(tmp_path / "with", width)
    network = prepared(method, *known.values())
    unknown = experiences(tmp_path / "without", 0)
    without = prepared(method, *unknown.values())
    for kind, words in ((QuestionEncoder, QUESTION), (SentenceHead, CAPTION)):
        started, as_always = words_of(network, kind), words_of(without, kind)
        assert started and len(started) == len(as_always)
        for ours, usual in zip(started, as_always, strict=True):
            for number, word in enumerate(words):
                if word.isalpha():
                    assert ours[number].tolist() == pytest.approx([number + 0.01] * width)
                else:  # no vector: padding, and signs for begin, end and unknown words
                    assert torch.equal(ours[number], usual[number])


@pytest.mark.parametrize("method", METHODS)
def test_a_later_task_leaves_words_as_they_were_learned(
    method: type[HeadsStrategy], tmp_path: Path
) -> None:
    known = experiences(tmp_path, SIZES["small"].word)
    strategy = method(seed=0)
    strategy.prepare(known["cnt"])
    learned = words_of(strategy.network, QuestionEncoder)
    for weight in learned:
        torch.nn.init.constant_(weight, 0.5)
    strategy.prepare(known["vqa"])
    assert learned and all((weight == 0.5).all() for weight in learned)


# Where layers start.


def scaled_parts(network: Any) -> dict[str, ScaledLinear]:
    return {n: part for n, part in network.named_modules() if isinstance(part, ScaledLinear)}


@pytest.mark.parametrize("method", METHODS)
def test_all_that_is_multiplied_starts_scaled(method: type[HeadsStrategy], tmp_path: Path) -> None:
    """The trunk, too, which is there before the first task."""
    network = prepared(method, *experiences(tmp_path, 0).values())
    parts = scaled_parts(network)
    assert len(parts) > 4
    for name, part in parts.items():
        assert not part.bias.any(), name
        assert float(part.weight.detach().var()) == pytest.approx(2 / part.in_features, rel=0.2)
    attention = [part for part in network.modules() if isinstance(part, SoftAttention)]
    assert attention and not any(part.z.bias.any() for part in attention)


@pytest.mark.parametrize("method", METHODS)
def test_a_later_task_starts_nothing_anew(method: type[HeadsStrategy], tmp_path: Path) -> None:
    known = experiences(tmp_path, 0)
    strategy = method(seed=0)
    strategy.prepare(known["cnt"])
    before = {name: value.clone() for name, value in strategy.network.state_dict().items()}
    strategy.prepare(known["vqa"])
    after = strategy.network.state_dict()
    assert all(torch.equal(value, after[name]) for name, value in before.items())


@pytest.mark.parametrize("method", METHODS)
def test_at_the_papers_size_layers_start_as_torch_has_it(
    method: type[HeadsStrategy], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(parts: Any) -> None:
        raise AssertionError("the paper says nothing of a scaled start")

    monkeypatch.setattr("baselines.common.network.start_scaled", refuse)
    strategy = method(options=method.Options.model_validate({"size": "paper", "width": 16}))
    for experience in experiences(tmp_path, 0).values():
        strategy.prepare(experience)
    assert all(part.bias.any() for part in scaled_parts(strategy.network).values())
