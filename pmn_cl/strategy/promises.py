"""What every strategy keeps to, by name: see ``contract``, which finds out whether one does."""

from __future__ import annotations

from enum import Enum


class Promise(Enum):
    """What every strategy keeps to."""

    REFUSES = "a task that it has not learned is refused with a UserError that names it"
    LEARNS = "it answers what it has learned, in the form that the task's score takes"
    ANY_ORDER = "what it answers and learns does not depend on what it was asked before"
    OWN_DATA = "it reads the samples that it is given, and what it keeps of earlier ones"
    NO_TARGETS = "its answers do not depend on the targets of the samples it answers"
    PARAMETERS = "it reports how many parameters it has"
    SEED = "the seed alone decides what it learns"
    KEPT = "saved and loaded, it answers the same"


class ContractError(AssertionError):
    """Which promise a strategy broke, and how."""

    def __init__(self, promise: Promise, how: str) -> None:
        super().__init__(f"{how} (promised: {promise.value})")
        self.promise = promise
