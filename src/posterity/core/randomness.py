"""All randomness comes from explicit generators that can be captured and restored.

Each purpose (weight noise, batch order, held-out split, ...) has a generator of its own, seeded from one
seed and the purpose's name, so that using one more of the one does not change the other.

Weight noise is the one kind that must be fast: it is among the largest costs of a dense network's step. It inverts
the normal distribution function on the bits of a modern generator:

    z = sqrt(2) erfinv(u),    u = k (1 - 2^-24) / 2^31,    k uniform on -2^31 .. 2^31 - 1

In single precision |u| <= 1 - 2^-24, so |z| < 5.5 (in double precision, with 2^63 and 2^-53, |z| < 8.3). A long row is
made by a compiled pass, where there is one (core.kernels), from the same bits and the same to rounding; else a block is
taken from bits to noise while it is in the processor's cache.
"""

from __future__ import annotations

import hashlib
import math

import numpy as np
import torch
from torch import Tensor

from posterity.core import kernels
from posterity.core.errors import UsageError

# For each precision: the whole numbers its bits are read as, and what takes them into the open interval (-1, 1).
WHOLE = {torch.float32: np.int32, torch.float64: np.int64}
SCALE = {torch.float32: 2.0**-31 * (1 - 2.0**-24), torch.float64: 2.0**-63 * (1 - 2.0**-53)}
BLOCK = 2**17  # numbers made at a time: they stay in the cache, and are enough for two threads


def derive(seed: int, purpose: str) -> int:
    """A seed for `purpose`, well mixed, the same on every machine."""
    return int.from_bytes(hashlib.sha256(f"{seed}/{purpose}".encode()).digest()[:7], "big")


def generator(seed: int, purpose: str) -> torch.Generator:
    """A PyTorch generator for `purpose`."""
    return torch.Generator().manual_seed(derive(seed, purpose))


def fresh_seed() -> int:
    """A seed drawn from PyTorch's global generator, so that `torch.manual_seed` governs it."""
    return int(torch.randint(2**62, (), device="cpu").item())


def refuse_tracing() -> None:
    """Refuse to draw noise in a pass that is being made into a program, which would have this one draw for good."""
    # torch.compile is another matter: it runs the network's own code again.
    if torch.jit.is_tracing() or torch.compiler.is_exporting():  # type: ignore[attr-defined,no-untyped-call]
        raise UsageError(
            "a Bayesian network draws its weights in every pass; traced or exported it would be one draw, frozen: make "
            "a predictor, net.predictor(samples=32), and give that to posterity.export(predictor, example, path)"
        )


class NoiseSource:
    """Standard normal noise from a generator whose state can be captured and restored."""

    def __init__(self, seed: int) -> None:
        self._bits = np.random.SFC64(derive(seed, "weights"))

    def normal(self, shape: tuple[int, ...], like: Tensor) -> Tensor:
        """Noise of `shape` with the dtype and device of `like`.

        Each row (the last axis) is drawn by itself: S rows are the same however many are asked for at a time.
        """
        # Half-precision noise would have too few distinct values: it is rounded from single precision.
        refuse_tracing()
        dtype = torch.float64 if like.dtype == torch.float64 else torch.float32
        noise = torch.empty(shape, dtype=dtype, device="cpu")  # the bits' own place
        for row in noise.view(-1, shape[-1]) if noise.numel() else ():
            if kernels.compiled(row):
                kernels.normal(self._bits, row)
                continue
            for block in row.split(BLOCK):
                words = self._bits.random_raw(math.ceil(block.numel() * dtype.itemsize / 8))
                whole = torch.from_numpy(words.view(WHOLE[dtype])[: block.numel()])
                block.copy_(whole).mul_(SCALE[dtype]).erfinv_().mul_(math.sqrt(2))
        return noise.to(like)

    def signs(self, shape: tuple[int, ...], like: Tensor) -> Tensor:
        """Random signs, -1 or 1, of `shape` with the dtype and device of `like`: a bit each."""
        count = math.prod(shape)
        bits = np.unpackbits(self._bits.random_raw(math.ceil(count / 64)).view(np.uint8), count=count)
        return torch.from_numpy(bits).to(like).mul_(2).sub_(1).view(shape)

    def state(self) -> Tensor:
        """The generator's state, an int64 vector."""
        words: np.ndarray[tuple[int], np.dtype[np.uint64]] = self._bits.state["state"]["state"]
        return torch.from_numpy(words.view(np.int64).copy())

    def restore(self, state: Tensor) -> None:
        """Go on from `state`."""
        whole = self._bits.state
        whole["state"]["state"] = state.cpu().numpy().view(np.uint64).copy()
        self._bits.state = whole
