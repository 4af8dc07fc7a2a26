"""All randomness comes from explicit generators that can be captured and restored.

Each purpose (weight noise, batch order, held-out split, ...) has a generator of its own, seeded from one
seed and the purpose's name, so that using one more of the one does not change the other.

Weight noise is the one kind that must be fast: a step of a dense network spends more time on it than on
anything else. Measured, inverting the normal distribution function on the bits of a modern generator takes
half the time of PyTorch's Mersenne twister with Box-Muller:

    z = sqrt(2) erfinv(u),    u = (2 k + 1) / 2^24,    k uniform on -2^23 .. 2^23 - 1

Every u is exact in single precision, none is 0 or +-1, and their distribution is symmetric; |z| < 5.3.
"""

from __future__ import annotations

import hashlib
import math

import numpy as np
import torch
from torch import Tensor

# In both halves of a 64-bit word: keep the upper 24 bits of the 32, set the one below.
KEEP, CENTRE = np.uint64(0xFFFFFF00_FFFFFF00), np.uint64(0x00000080_00000080)
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
        rows = math.prod(shape[:-1])
        # Half-precision noise would have too few distinct values: it is rounded from single precision.
        draw = self._double if like.dtype == torch.float64 else self._single
        drawn = draw(shape[-1]) if rows == 1 else torch.cat([draw(shape[-1]) for _ in range(rows)])
        return drawn.view(shape).to(like)

    def _single(self, count: int) -> Tensor:
        z = torch.empty(count)
        for start in range(0, count, 2 * WORDS):
            part = z[start : start + 2 * WORDS]
            words = self._bits.random_raw(part.numel() // 2 + 1)
            words &= KEEP
            words |= CENTRE
            torch.mul(torch.from_numpy(words.view(np.int32)[: part.numel()]), 2.0**-31, out=part)
        return z.erfinv_().mul_(math.sqrt(2))

    def _double(self, count: int) -> Tensor:
        words = self._bits.random_raw(count + 1)[:count]
        words &= np.uint64(0xFFFFFFFF_FFFFF800)  # 53 bits, as above
        words |= np.uint64(0x400)
        z = torch.from_numpy(words.view(np.int64)).to(torch.float64)
        return z.mul_(2.0**-63).erfinv_().mul_(math.sqrt(2))

    def state(self) -> Tensor:
        """The generator's state, an int64 vector."""
        words: np.ndarray[tuple[int], np.dtype[np.uint64]] = self._bits.state["state"]["state"]
        return torch.from_numpy(words.view(np.int64).copy())

    def restore(self, state: Tensor) -> None:
        """Go on from `state`."""
        whole = self._bits.state
        whole["state"]["state"] = state.cpu().numpy().view(np.uint64).copy()
        self._bits.state = whole
