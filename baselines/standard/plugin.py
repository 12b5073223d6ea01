"""Hard sharing with a plugin of Avalanche's: what the methods have in common, and any plugin."""

from __future__ import annotations

import itertools
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from baselines.hard_sharing import HardSharing
from baselines.options import REFUSED, HeadsOptions, PluginOptions
from pmn_cl import registry
from pmn_cl.errors import UserError
from pmn_cl.strategy.avalanche import import_avalanche
from pmn_cl.strategy.base import State

import_avalanche()

from avalanche.core import BasePlugin  # noqa: E402


class WithPlugin(HardSharing):
    """Hard sharing with a plugin of Avalanche's."""

    predictable = False

    def __init__(
        self, *, options: HeadsOptions | None = None, plugins: Sequence[Any] = (), **given: Any
    ) -> None:
        chosen = options or self.Options()
        self.plugin: Any = self.make_plugin(chosen)
        super().__init__(options=chosen, plugins=[self.plugin, *plugins], **given)

    @abstractmethod
    def make_plugin(self, options: Any) -> Any:
        """Return the plugin that these options describe."""


class Plugin(WithPlugin):
    """Any plugin that works with a head and a loss per task.

    One that brings a loader of its own gets as many steps as the others. What it remembers is not
    known here, so a run that is cut off starts over.
    """

    Options: ClassVar[type[HeadsOptions]] = PluginOptions

    def make_plugin(self, options: PluginOptions) -> Any:
        """Return the plugin that was named, if it can work."""
        kind = registry.load(options.plugin)
        if not (isinstance(kind, type) and issubclass(kind, BasePlugin)):
            raise UserError(f"{options.plugin!r} is no plugin of Avalanche's, and must be one")
        reasons = [REFUSED[base.__name__] for base in kind.__mro__ if base.__name__ in REFUSED]
        if reasons:
            raise UserError(f"{options.plugin!r} cannot work here: {reasons[0]}")
        try:
            return kind(**options.arguments)
        except (AssertionError, TypeError, ValueError) as error:
            raise UserError(
                f"{options.plugin!r} does not take the arguments {options.arguments}: {error}"
            ) from error

    def make_train_dataloader(self, **kwargs: Any) -> None:
        """Read whole batches, unless the plugin has a loader of its own."""
        super().make_train_dataloader(**kwargs)
        self._usual = self.dataloader

    def _before_training_exp(self, **kwargs: Any) -> None:
        super()._before_training_exp(**kwargs)
        if self.dataloader is not self._usual:
            self.dataloader = _AsManySteps(self, self.dataloader, len(self._usual))

    def _unpack_minibatch(self) -> None:
        super()._unpack_minibatch()
        if self.is_training:  # plugins may call the network with x alone
            self.mb_x.set("y", self.mb_y)

    def state(self) -> State | None:  # type: ignore[override]
        """Return nothing: what a plugin remembers is not known."""
        return None


@dataclass
class _AsManySteps:
    """A plugin's batches, over and over, for as many steps as an epoch has."""

    strategy: Plugin
    loader: Any
    per_epoch: int

    def __len__(self) -> int:
        return self.per_epoch

    def __iter__(self) -> Iterator[Any]:
        left = self.strategy.steps - self.strategy.clock.train_exp_epochs * self.per_epoch
        again = itertools.chain.from_iterable(itertools.repeat(self.loader))
        return itertools.islice(again, min(left, self.per_epoch))
