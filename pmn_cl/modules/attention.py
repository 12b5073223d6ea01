"""Where a module looks: its attention map, as those who watch it see it. Changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import Tensor, nn

from pmn_cl.modules.runtime.environment import Environment


class AttentionMap(nn.Module):
    """Passes on a map (B, N) over the regions as it is, be it of shares or of logits."""

    def __init__(self, *, logits: bool = False) -> None:
        super().__init__()
        self.logits = logits

    def forward(self, attention: Tensor, env: Environment) -> Tensor:
        """Return the map."""
        return attention


@contextmanager
def maps_seen(looks: AttentionMap) -> Iterator[list[Tensor]]:
    """Give every map (B, N) that is passed on meanwhile, as shares."""
    seen: list[Tensor] = []

    def keep(module: AttentionMap, given: tuple[Tensor, Environment], out: Tensor) -> None:
        seen.append(given[1].softmax(out) if module.logits else out)

    hook = looks.register_forward_hook(keep)
    try:
        yield seen
    finally:
        hook.remove()
