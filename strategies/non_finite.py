"""Where a loss that is not finite came from: which task, at which step, and which module."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from pmn_cl.modules.runtime.trace import Trace
from strategies.loaders import mixes_tasks

if TYPE_CHECKING:
    from strategies.loop import TaskTemplate

_ADVICE = "; a smaller learning rate may help"


def non_finite_loss(strategy: TaskTemplate) -> str:
    """Return what to tell the user about the loss of the current batch."""
    loss = float(strategy.mb_loss.detach())
    step = strategy.clock.train_exp_iterations + 1
    if mixes_tasks(strategy.mb_x):
        labels = sorted({int(sample["task"]) for sample in strategy.mb_y.unbind(0)})
        tasks = ", ".join(repr(strategy.experiences[label].task.name) for label in labels)
        return f"the loss of a batch of the tasks {tasks} is {loss} at step {step}{_ADVICE}"
    # Where batches of tasks alternate, the batch's task is not the one that is learned last.
    training = strategy.is_training
    experience = strategy.batch_experience if training else strategy.current_experience()
    task = experience.task.name
    return (
        f"the loss of the task {task!r} is {loss} at step {step}: the first output that is not "
        f"finite is that of {_first_non_finite(strategy, task)}{_ADVICE}"
    )


def _first_non_finite(strategy: TaskTemplate, task: str) -> str:
    """Return the first module whose output for the current batch is not finite."""
    trace = Trace()
    with torch.no_grad():
        strategy.model(strategy.mb_x, task, teacher=strategy.mb_y, trace=trace)
    guilty = [call for call in trace.calls if not bool(call.output.isfinite().all())]
    return f"{guilty[0].callee}, called by M_{guilty[0].caller}" if guilty else f"M_{task}"
