"""What a strategy is: something that goes through a stream and answers what it has learned.

To add one, subclass ``Strategy`` in a file of your own and name it in a stream's YAML as
``package.module:Name``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

from numpy.typing import NDArray

from pmn_cl.samples import Samples


class Strategy(ABC):
    """Learns one task after another and can answer any task it has seen."""

    summary: ClassVar[str]  # one line, for ``pmn-bench list``

    @abstractmethod
    def learn(self, samples: Samples) -> None:
        """Learn the next task of the stream from its training samples."""

    @abstractmethod
    def predict(self, samples: Samples) -> NDArray[Any]:
        """Return predictions in the form that the task's ``score`` expects.

        A task that was not learned yet is refused with a ``UserError``.
        """
