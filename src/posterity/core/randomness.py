"""All randomness comes from explicit generators that can be captured and restored.

Each purpose (weight noise, batch order, held-out split, ...) has a generator of its own, seeded from one
seed and the purpose's name, so that using one more of the one does not change the other.
"""

from __future__ import annotations

import hashlib

import torch
from torch import Tensor


def derive(seed: int, purpose: str) -> int:
    """A seed for `purpose`, well mixed, the same on every machine."""
    return int.from_bytes(hashlib.sha256(f"{seed}/{purpose}".encode()).digest()[:7], "big")


def generator(seed: int, purpose: str, device: torch.device | str = "cpu") -> torch.Generator:
    """A generator for `purpose`."""
    return torch.Generator(device).manual_seed(derive(seed, purpose))


def fresh_seed() -> int:
    """A seed drawn from PyTorch's global generator, so that `torch.manual_seed` governs it."""
    return int(torch.randint(2**62, ()).item())


def fill_normal(rows: Tensor, source: torch.Generator) -> Tensor:
    """Fill `rows` (S, N) or (N,) with standard normal noise.

    Each row is drawn by itself, so that S rows are the same however many are asked for at a time.
    """
    for row in rows.view(-1, rows.shape[-1]):
        row.normal_(generator=source)
    return rows
