"""Every task by itself: the base modules M_n0, which call no other (Tables 1 to 3 of the paper).

They are the reference for transfer: what a module gains by its callees is its score less that of
the base module, which sees the same samples in the same order and starts from the same seed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pmn_cl.errors import UserError
from pmn_cl.modules.task_module import TaskModule
from pmn_cl.strategy.base import Experience
from pmn_cl.strategy.matching import matched_options
from strategies.pmn import Progressive


class Independent(Progressive):
    """PMN's modules with empty call lists, each learned from scratch."""

    def calls(self, experience: Experience) -> tuple[str, ...]:
        """Call no other module."""
        return ()


class ParameterMatched(Independent):
    """The paper's control for size: M_vqa0 is widened until all modules have PMN's parameters.

    Where a stream has no vqa, the module of its highest level is widened instead. PMN is that of
    the same options; the widths found stand in ``options.widths``.
    """

    _expected = False

    def expect(self, experiences: Sequence[Experience]) -> None:
        """Find the width for the stream that is to come."""
        super().expect(experiences)
        usual = self.options.model_copy(update={"widths": {}})
        ours = "strategies.independent:Independent"
        found = matched_options(ours, self.options, "pmn", usual, experiences)
        self.options, self.matched_ratio = found.options, found.ratio
        self._expected = True

    def make_module(self, experience: Experience, callees: Mapping[str, TaskModule]) -> TaskModule:
        """Return a module of the width found."""
        if not self._expected:
            raise UserError(
                "a parameter-matched strategy must know the stream before it learns: call "
                "`expect` with all experiences first"
            )
        return super().make_module(experience, callees)
