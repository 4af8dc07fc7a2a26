"""Double precision, where a device has it.

Sums and squares that need room are taken in double precision. Apple's GPUs (MPS) have none: there single precision
serves, with what rounding that brings.
"""

from __future__ import annotations

import torch
from torch import Tensor

WITHOUT_DOUBLE = frozenset({"mps"})  # types of devices


def wide_type(device: torch.device) -> torch.dtype:
    """The widest floating type that a device has."""
    return torch.float32 if device.type in WITHOUT_DOUBLE else torch.float64


def wide(tensor: Tensor) -> Tensor:
    """`tensor` in the widest floating type that its device has."""
    return tensor.to(wide_type(tensor.device))
