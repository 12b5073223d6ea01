"""Where a loss that is not finite came from: which task, and which module."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from pmn_cl.modules.runtime.trace import Trace


def first_non_finite(network: nn.Module, x: Any, y: Any, task: str) -> str:
    """Return the first module whose output for a batch of a task is not finite."""
    trace = Trace()
    with torch.no_grad():
        network(x, task, teacher=y, trace=trace)
    guilty = [call for call in trace.calls if not bool(call.output.isfinite().all())]
    return f"{guilty[0].callee}, called by M_{guilty[0].caller}" if guilty else f"M_{task}"
