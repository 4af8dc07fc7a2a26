"""How an epoch's KL is shared among its batches.

    pi_i = lam^i / sum_{k=1..M} lam^k,   i = 1..M;      lam = 0 means pi_i = 0 (frequentist training)

The loss of batch i has the factor M pi_i on its KL: 1 for lam = 1, 1 on average for any lam > 0.
Evaluated from the largest, lam^(i - i_max): lam^k itself overflows for large M, and so loses i log lam its digits.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from posterity.core.errors import UsageError


def kl_weights(num_batches: int, lam: float = 1.0) -> Tensor:
    """The factors M pi_i (M,) in double precision; they sum to M (to 0 for lam = 0)."""
    if num_batches < 1:
        raise UsageError(f"an epoch must have at least one batch, not {num_batches}")
    if not (math.isfinite(lam) and lam >= 0):
        raise UsageError(f"lam must be a number of at least 0, not {lam}")
    if lam == 0:
        return torch.zeros(num_batches, dtype=torch.float64, device="cpu")
    falling = (-abs(math.log(lam)) * torch.arange(num_batches, dtype=torch.float64, device="cpu")).softmax(0)
    return num_batches * (falling.flip(0) if lam > 1 else falling)
