"""What M_vqa may change of the modules it calls, and which of M_cnt's parts it asks with.

The paper fine-tunes M_cnt while M_vqa learns, and both have the same question encoder, Ω and Q→rel.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping

from torch import nn

from pmn_cl.errors import UserError
from pmn_cl.modules.answer import AnswerModule
from pmn_cl.modules.count import CountModule
from pmn_cl.modules.runtime.network import ModuleNetwork
from pmn_cl.modules.task_module import TaskModule
from strategies.options import PmnOptions


def unfreeze_callees(
    task: str, callees: Mapping[str, TaskModule], network: ModuleNetwork, options: PmnOptions
) -> dict[str, TaskModule]:
    """Return the callees that a task may change, ready to learn; or copies of them."""
    tuned = {}
    for name in options.finetune if task == "vqa" else ():
        if name not in callees:
            called = ", ".join(callees) or "none"
            raise UserError(f"finetune: {name!r} is not called by 'vqa', only {called}")
        module = callees[name]
        others = [k for k in network.learned if name in network[k].callees]
        if others and not options.keep_old:
            raise UserError(
                f"finetune: {name!r} is called by {', '.join(others)}, which would change with "
                "it; `keep_old: true` tunes a copy"
            )
        if options.keep_old:
            module = copy.deepcopy(module)  # which borrows the same callees
            module.callees = callees[name].callees
            network.add(f"{name} of {task}", module)
        module.unfreeze()
        tuned[name] = module
    return tuned


def take_asking(module: AnswerModule, asking: str, learning: Iterable[nn.Module]) -> None:
    """Start from M_cnt's question encoder, Ω and Q→rel ("copies"), or use the same ("shared")."""
    counting = module.callees.get("cnt")
    if not isinstance(counting, CountModule):
        return  # nothing to take: M_vqa learns its own
    if not module.asking.fits(counting.asking):
        raise UserError(
            f"M_vqa calls {', '.join(module.callees)} but M_cnt {', '.join(counting.callees)}: "
            "they cannot have the same Ω and Q→rel; use `asking: own`, or call lists that "
            "agree on rel, obj and att"
        )
    ours, theirs = (
        {name: value.shape for name, value in parts.state_dict().items()}
        for parts in (module.asking, counting.asking)
    )
    if ours != theirs:
        raise UserError(
            "widths: M_vqa and M_cnt differ in size, so that M_vqa cannot ask with M_cnt's "
            "parts; use `asking: own`, or the same widths for both"
        )
    if asking == "copies":
        module.asking.load_state_dict(counting.asking.state_dict())
        module.copied = True
    elif any(counting is part for part in learning):
        module.share("cnt")
    else:
        raise UserError("`asking: shared` trains M_cnt's parts: it needs `finetune: [cnt]`")
