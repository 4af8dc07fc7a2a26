"""All randomness comes from explicit generators that can be captured and restored.

Each purpose (weight noise, batch order, held-out split, ...) has a generator of its own, seeded from one
seed and the purpose's name, so that using one more of the one does not change the other.

Weight noise is the one kind that must be fast: it is among the largest costs of a dense network's step. Measured
for 478,410 weights, inverting the normal distribution function on the bits of a modern generator takes four fifths
of the time of PyTorch's Mersenne twister with Box-Muller:

    z = sqrt(2) erfinv(u),    u = (2 k + 1) / 2^22,    k uniform on -2^21 .. 2^21 - 1

Every u is exact in single precision, none is 0 or +-1, and they are symmetric; |z| < 5.2 (8.3 in double precision).
The bits are made into numbers without arithmetic: 22 random ones and a last 1 are the fraction of a number in
[2, 4), from which 3 is subtracted.
"""

from __future__ import annotations

import hashlib
import math

import numpy as np
import torch
from torch import Tensor

# In both halves of a 64-bit word: the random bits of the fraction; the exponent of [2, 4) and the last 1.
RANDOM, FIXED = np.uint64(0x007FFFFE_007FFFFE), np.uint64(0x40000001_40000001)
# The same for double precision: 51 random bits and a last 1.
RANDOM_DOUBLE, FIXED_DOUBLE = np.uint64(0x000FFFFF_FFFFFFFE), np.uint64(0x40000000_00000001)
WORDS = 2**14  # drawn at a time: stays in the cache, and below the size at which memory is mapped anew


def derive(seed: int, purpose: str) -> int:
    """A seed for `purpose`, well mixed, the same on every machine."""
    return int.from_bytes(hashlib.sha256(f"{seed}/{purpose}".encode()).digest()[:7], "big")


def generator(seed: int, purpose: str) -> torch.Generator:
    """A PyTorch generator for `purpose`."""
    return torch.Generator().manual_seed(derive(seed, purpose))


def fresh_seed() -> int:
    """A seed drawn from PyTorch's global generator, so that `torch.manual_seed` governs it."""
    return int(torch.randint(2**62, ()).item())


class NoiseSource:
    """Standard normal noise from a generator whose state can be captured and restored."""

    def __init__(self, seed: int) -> None:
        self._bits = np.random.SFC64(derive(seed, "weights"))

    def normal(self, shape: tuple[int, ...], like: Tensor) -> Tensor:
        """Noise of `shape` with the dtype and device of `like`.

        Each row (the last axis) is drawn by itself: S rows are the same however many are asked for at a time.
        """
        # Half-precision noise would have too few distinct values: it is rounded from single precision.
        single = like.dtype != torch.float64
        noise = torch.empty(shape, dtype=torch.float32 if single else torch.float64)
        fill = self._fill_single if single else self._fill_double
        for row in noise.view(-1, shape[-1]):
            fill(row)
        return noise.erfinv_().mul_(math.sqrt(2)).to(like)

    def _fill_single(self, row: Tensor) -> None:
        for part in row.split(2 * WORDS):
            words = self._bits.random_raw(part.numel() // 2 + 1)
            words &= RANDOM
            words |= FIXED
            torch.sub(torch.from_numpy(words.view(np.float32)[: part.numel()]), 3, out=part)

    def _fill_double(self, row: Tensor) -> None:
        for part in row.split(WORDS):
            words = self._bits.random_raw(part.numel() + 1)[:-1]
            words &= RANDOM_DOUBLE
            words |= FIXED_DOUBLE
            torch.sub(torch.from_numpy(words.view(np.float64)), 3, out=part)

    def state(self) -> Tensor:
        """The generator's state, an int64 vector."""
        words: np.ndarray[tuple[int], np.dtype[np.uint64]] = self._bits.state["state"]["state"]
        return torch.from_numpy(words.view(np.int64).copy())

    def restore(self, state: Tensor) -> None:
        """Go on from `state`."""
        whole = self._bits.state
        whole["state"]["state"] = state.cpu().numpy().view(np.uint64).copy()
        self._bits.state = whole
