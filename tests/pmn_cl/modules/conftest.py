"""A tiny world for modules: every width differs, so that mixed-up layers cannot fit by chance."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from pmn_cl.modules.answer import AnswerModule
from pmn_cl.modules.caption import CaptionModule
from pmn_cl.modules.count import CountModule
from pmn_cl.modules.relation import RelationModule
from pmn_cl.modules.sizes import Departures, Gates, Sizes, WorldShape
from pmn_cl.modules.task_module import ModulePlan, TaskModule
from pmn_cl.modules.terminal import AttributeModule, ObjectModule

KINDS: dict[str, type[TaskModule]] = {
    "obj": ObjectModule,
    "att": AttributeModule,
    "rel": RelationModule,
    "cap": CaptionModule,
    "cnt": CountModule,
    "vqa": AnswerModule,
}
# The call lists of section 3.3, without Ω and Δ, which are a module's own.
PAPERS_CALLS: dict[str, tuple[str, ...]] = {
    "obj": (),
    "att": (),
    "rel": ("obj", "att"),
    "cap": ("obj", "att"),
    "cnt": ("rel",),
    "vqa": ("rel", "obj", "att", "cnt", "cap"),
}
COUNTS = {
    "objects": 4,
    "attributes": 3,
    "relations": 3,
    "directions": 2,
    "counts": 5,
    "question words": 9,
    "caption words": 6,
    "answers": 8,
}
TINY = Sizes(
    hidden=5,
    knowledge=8,
    attention=9,
    relation=10,
    relation_attention=11,
    caption=7,
    word=3,
    terminal=2,
)
REGION = 6


def give_weights(module: nn.Module, seed: int) -> None:
    """Give every parameter and every running statistic a value that is not its neutral one."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, value in sorted(module.state_dict().items()):
            if not value.is_floating_point():
                continue
            drawn = torch.randn(value.shape, generator=generator) * 0.6
            positive = name.endswith("running_var") or "counter" in name
            value.copy_(drawn.abs() + 0.5 if positive else drawn)
            if name.endswith("words.weight"):
                value[0] = 0  # the vector of padding


@pytest.fixture(scope="session")
def plan() -> Callable[..., ModulePlan]:
    """Return a maker of plans for the tiny world; all that is not said is the paper's."""

    def make(
        sizes: Sizes = TINY,
        gates: Gates | None = None,
        departures: Departures | None = None,
        region: int = REGION,
        counts: Mapping[str, int] | None = None,
    ) -> ModulePlan:
        names = {
            what: [f"{what} {number}" for number in range(count)]
            for what, count in {**COUNTS, **(counts or {})}.items()
        }
        return ModulePlan(
            WorldShape(region, names), sizes, gates or Gates(), departures or Departures()
        )

    return make


@pytest.fixture(scope="session")
def modules() -> Callable[..., dict[str, Any]]:
    """Return a maker of all six modules in eval mode, with weights that a seed decides."""

    def make(
        plan: ModulePlan,
        *,
        seed: int = 0,
        calls: Mapping[str, Sequence[str]] | None = None,
        frozen: Sequence[str] = (),
        weights: bool = True,
    ) -> dict[str, Any]:
        made: dict[str, TaskModule] = {}
        for number, (name, kind) in enumerate(KINDS.items()):
            called = {**PAPERS_CALLS, **(calls or {})}[name]
            made[name] = kind(plan, {callee: made[callee] for callee in called})
            if weights:
                give_weights(made[name], 100 * seed + number)
            made[name].eval()
        for name in frozen:
            made[name].freeze()
        return made

    return make


@pytest.fixture(scope="session")
def batch() -> Callable[..., dict[str, Tensor]]:
    """Return a maker of batches in which scenes and questions are of different lengths."""

    def make(
        *,
        there: Sequence[int] = (5, 3, 4),
        asked: Sequence[int] = (4, 2, 3),
        region: int = REGION,
        seed: int = 0,
        dtype: torch.dtype = torch.float32,
    ) -> dict[str, Tensor]:
        generator = torch.Generator().manual_seed(seed)
        B, N = len(there), max(there)
        mask = torch.arange(N) < torch.tensor(there)[:, None]
        corner = torch.rand(B, N, 2, generator=generator) * 0.6
        side = torch.rand(B, N, 2, generator=generator) * 0.3 + 0.1
        regions = torch.randn(B, N, region, generator=generator)
        words = torch.randint(1, COUNTS["question words"], (B, max(asked)), generator=generator)
        said = torch.arange(max(asked)) < torch.tensor(asked)[:, None]
        return {
            "regions": (regions * mask[:, :, None]).to(dtype),
            "boxes": (torch.cat([corner, corner + side], dim=2) * mask[:, :, None]).to(dtype),
            "mask": mask,
            "question": words * said,
            "box": torch.tensor([int(torch.randint(n, (), generator=generator)) for n in there]),
            "relation": torch.randint(COUNTS["relations"], (B,), generator=generator),
            "direction": torch.randint(COUNTS["directions"], (B,), generator=generator),
        }

    return make


@pytest.fixture(scope="session")
def of_scenes(
    batch: Callable[..., dict[str, Tensor]],
) -> Callable[..., dict[str, Tensor]]:
    """Return a maker of batches with several samples about each of three scenes, 0, 1 and 2."""

    def make(scene: Sequence[int], dtype: torch.dtype = torch.float64) -> dict[str, Tensor]:
        scenes, asked = batch(dtype=dtype), [1 + number % 4 for number in range(len(scene))]
        x = batch(there=[2] * len(scene), asked=asked, seed=1)  # so that boxes asked are there
        seen = {name: scenes[name][list(scene)] for name in ("regions", "boxes", "mask")}
        return {**x, **seen, "scene": torch.tensor(scene), "sample": torch.arange(len(scene))}

    return make


@pytest.fixture(scope="session")
def padded() -> Callable[..., dict[str, Tensor]]:
    """Return a function that pads a batch further, with rubbish where there is nothing."""

    def pad(
        batch: Mapping[str, Tensor], *, boxes: int = 3, words: int = 2, in_boxes: bool = True
    ) -> dict[str, Tensor]:
        generator = torch.Generator().manual_seed(99)
        B, N, d = batch["regions"].shape
        regions = torch.randn(B, N + boxes, d, generator=generator) * 1e6
        places = torch.rand(B, N + boxes, 4, generator=generator) * in_boxes
        mask = torch.zeros(B, N + boxes, dtype=torch.bool)
        mask[:, :N] = batch["mask"]
        regions[mask] = batch["regions"][batch["mask"]]
        places[mask] = batch["boxes"][batch["mask"]]
        silence = batch["question"].new_zeros(B, words)
        question = torch.cat([batch["question"], silence], dim=1)
        changed = {"regions": regions, "boxes": places, "mask": mask, "question": question}
        return {**batch, **changed}

    return pad


Arrays = Mapping[str, Any]


@pytest.fixture(scope="session")
def by_hand() -> Callable[[nn.Module], dict[str, Any]]:
    """Return a function that gives a module's weights as arrays of double precision."""

    def weights(module: nn.Module) -> dict[str, Any]:
        return {k: v.detach().double().numpy() for k, v in module.state_dict().items()}

    return weights


class Equations:
    """The layers of appendix A in numpy, one vector at a time, given weights by name."""

    def __init__(self, weights: Arrays) -> None:
        self.weights = weights

    def linear(self, name: str, x: Any) -> Any:
        """W x + b."""
        return self.weights[f"{name}.weight"] @ x + self.weights[f"{name}.bias"]

    def mlp(self, name: str, x: Any) -> Any:
        """A hidden layer with ReLU, and an output layer."""
        return self.linear(f"{name}.2", np.maximum(self.linear(f"{name}.0", x), 0))

    def attention(self, name: str, key: Any, data: Sequence[Any], shared: str = "") -> Any:
        """z(f(k) · g(dᵢ)) for every dᵢ; g may be that of another attention."""
        f = np.maximum(self.linear(f"{name}.f.0", key), 0)
        maps = [f * np.maximum(self.linear(f"{shared or name}.g.0", d), 0) for d in data]
        return np.array([self.linear(f"{name}.z", m)[0] for m in maps])

    def receiver(self, name: str, x: Any) -> Any:
        """Linear layer, batch norm with running statistics, tanh."""
        w = self.weights
        mean, variance = w[f"{name}.1.running_mean"], w[f"{name}.1.running_var"]
        normal = (self.linear(f"{name}.0", x) - mean) / np.sqrt(variance + 1e-5)
        return np.tanh(normal * w[f"{name}.1.weight"] + w[f"{name}.1.bias"])

    def gated_tanh(self, name: str, x: Any) -> Any:
        """tanh(W x + b) ⊙ σ(W′ x + b′)."""
        return np.tanh(self.linear(f"{name}.value", x)) / (
            1 + np.exp(-self.linear(f"{name}.gate", x))
        )

    def gru(self, name: str, x: Any, h: Any, layer: str = "") -> Any:
        """One step of a GRU; torch stacks the weights of reset, update and candidate."""
        w = self.weights
        of_x = w[f"{name}.weight_ih{layer}"] @ x + w[f"{name}.bias_ih{layer}"]
        of_h = w[f"{name}.weight_hh{layer}"] @ h + w[f"{name}.bias_hh{layer}"]
        (xr, xz, xn), (hr, hz, hn) = np.split(of_x, 3), np.split(of_h, 3)
        reset, keep = 1 / (1 + np.exp(-(xr + hr))), 1 / (1 + np.exp(-(xz + hz)))
        return (1 - keep) * np.tanh(xn + reset * hn) + keep * h

    def sentence(self, name: str, words: Sequence[int]) -> Any:
        """S: a GRU over the vectors of a question's words."""
        h = np.zeros(self.weights[f"{name}.gru.weight_hh_l0"].shape[1])
        for word in words:
            vector = self.weights[f"{name}.words.weight"][word]
            h = self.gru(f"{name}.gru", vector, h, layer="_l0")
        return h

    @staticmethod
    def softmax(x: Any) -> Any:
        """exp(xᵢ) / Σ exp(xⱼ)."""
        e = np.exp(x - np.max(x))
        return e / e.sum()


@pytest.fixture(scope="session")
def equations(by_hand: Callable[[nn.Module], dict[str, Any]]) -> Callable[[nn.Module], Any]:
    """Return a function that gives the paper's layers, with a module's weights, in numpy."""
    return lambda module: Equations(by_hand(module))


class Count:
    """How many numbers a layer learns, by the formula of the layer."""

    @staticmethod
    def linear(width: int, out: int) -> int:
        """W and b."""
        return width * out + out

    def mlp(self, width: int, hidden: int, out: int) -> int:
        """Two linear layers."""
        return self.linear(width, hidden) + self.linear(hidden, out)

    def attention(self, key: int, data: int | None, hidden: int) -> int:
        """f, g and z; without data, it has no g of its own."""
        g = self.linear(data, hidden) if data is not None else 0
        return self.linear(key, hidden) + g + self.linear(hidden, 1)

    def receiver(self, width: int, hidden: int) -> int:
        """A linear layer, and scale and shift of batch norm."""
        return self.linear(width, hidden) + 2 * hidden

    @staticmethod
    def gru(width: int, hidden: int) -> int:
        """Three gates, each with two matrices and (in torch) two biases."""
        return 3 * (width * hidden + hidden * hidden + 2 * hidden)


@pytest.fixture(scope="session")
def learns() -> Count:
    """Return formulas for the numbers that layers learn."""
    return Count()


@pytest.fixture(scope="session")
def parameters() -> Callable[[nn.Module], int]:
    """Return a function that counts what a module learns."""
    return lambda module: sum(p.numel() for p in module.parameters())
