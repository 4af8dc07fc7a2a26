"""Positive scales by a free parameter: sd = softplus(rho) = log(1 + exp(rho)), and back."""

from __future__ import annotations

import torch
from torch import Tensor


def rho_of(sd: Tensor) -> Tensor:
    """The inverse of softplus: log(exp(sd) - 1), without overflow for large or loss for small sd."""
    return sd + torch.log(-torch.expm1(-sd))
