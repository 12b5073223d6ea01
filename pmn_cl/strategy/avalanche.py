"""Lets a CPU build of torch and Avalanche live together.

A torchvision wheel built for CUDA cannot load its compiled operators beside a CPU torch, and
``import torchvision`` then fails while it registers shapes for ``torchvision::nms``; Avalanche
imports torchvision. Declaring the two missing operators is enough for the import; they cannot
be *run*, and nothing here runs them. Where the compiled operators load, nothing is touched.
"""

from __future__ import annotations

import importlib
import sys
import warnings
from types import ModuleType
from typing import Any

_NMS = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
_kept_alive: list[Any] = []  # an operator library is undone when it is collected


def import_torchvision() -> ModuleType:
    """Import torchvision, declaring its operators first where its binary cannot load."""
    try:
        return importlib.import_module("torchvision")
    except RuntimeError as error:
        if "torchvision::nms does not exist" not in str(error):
            raise
    for name in [n for n in sys.modules if n.split(".")[0] == "torchvision"]:
        del sys.modules[name]
    import torch

    library = torch.library.Library("torchvision", "DEF")  # type: ignore[no-untyped-call]
    for operator in ("nms", "qnms"):
        library.define(f"{operator}{_NMS}")  # type: ignore[no-untyped-call]
    _kept_alive.append(library)
    return importlib.import_module("torchvision")


def operators_are_declared() -> bool:
    """Whether torchvision's operators had to be declared in this process."""
    return bool(_kept_alive)


def import_avalanche() -> ModuleType:
    """Import Avalanche whatever kind of torch is installed. Takes seconds: call it late."""
    import_torchvision()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its dependencies warn about things no user of ours chose
        return importlib.import_module("avalanche")
