"""Stochastic-gradient Langevin dynamics: gradient steps with noise, whose path samples the posterior.

    U = num_data * loss,    loss = mean nll + (-log prior) / num_data
    w <- w - (lr/2) grad U + sqrt(lr T) eps                                                  [1]

preconditioned, G = 1 / (sqrt(V) + 1e-5), V = 0.99 V + 0.01 (grad loss)^2                    [2]
    w <- w - (lr/2) G grad U + sqrt(lr T G) eps

Limits: as lr -> 0 the stationary density is exp(-U/T); T = 0 is gradient descent with rate lr num_data / 2. For a
quadratic U with curvature a the stationary variance is T/(a (1 - lr a/4)): lr a must be small. [2]'s term with the
derivative of G is left out, as in its own experiments.

The noise has 2^13 values, the normal distribution's quantiles, with mean 0 and variance 1 exactly, and is drawn two
numbers at a time from 2^14 uncorrelated pairs. It takes a third of the time of finer noise, and what is sampled are
sums over many steps, which know only its first moments.

[1] Welling and Teh, Bayesian learning via stochastic gradient Langevin dynamics, 2011.
[2] Li, Chen, Carlson, Carin, Preconditioned stochastic gradient Langevin dynamics, 2016.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.optim.optimizer import ParamsT

from posterity.core.errors import UsageError
from posterity.core.randomness import derive
from posterity.optim.stepping import BlockOptimizer, Group, Kernel, check_not_negative, check_positive

ALPHA, EPS = 0.99, 1e-5


class SGLD(BlockOptimizer):
    """Langevin dynamics on num_data times the loss; collect its weights with a `SampleCollector`."""

    def __init__(
        self,
        params: ParamsT,
        *,
        lr: float,
        num_data: float,
        temperature: float = 1.0,
        preconditioned: bool = False,
        seed: int = 0,
    ) -> None:
        settings = {"num_data": num_data, "temperature": temperature, "preconditioned": preconditioned}
        super().__init__(params, {"lr": lr, **settings})
        self.shared = {"noise": StepNoise.begin(seed)}

    def check(self, group: Group) -> None:
        """num_data positive, temperature not negative."""
        check_positive("num_data", group["num_data"])
        check_not_negative("temperature", group["temperature"])

    def fresh(self, like: Tensor, group: Group) -> dict[str, Tensor]:
        """V, if preconditioned."""
        return {"v": torch.zeros_like(like)} if group["preconditioned"] else {}

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One step of every parameter that has a gradient."""
        self._noise = StepNoise(self.shared["noise"])
        loss = super().step(closure)
        self.shared = {"noise": self._noise.state()}
        return loss

    def kernel(self, group: Group, t: int) -> Kernel:
        """Drift and noise."""
        lr, noise = float(group["lr"]), self._noise
        drift, spread = 0.5 * lr * group["num_data"], math.sqrt(lr * group["temperature"])

        def move(w: Tensor, g: Tensor, scratch: Tensor) -> None:
            w.add_(g, alpha=-drift).add_(noise.like(w), alpha=spread)

        def move_preconditioned(w: Tensor, g: Tensor, v: Tensor, scratch: Tensor) -> None:
            eps = noise.like(w) if spread else scratch  # first: making it takes the cache for itself
            v.mul_(ALPHA).addcmul_(g, g, value=1 - ALPHA)
            root = torch.sqrt(v, out=scratch).add_(EPS).sqrt_()  # of 1/G
            if spread:
                w.addcdiv_(eps.addcdiv_(g, root, value=-drift / spread), root, value=spread)
            else:
                w.addcdiv_(g / root, root, value=-drift)

        return move_preconditioned if group["preconditioned"] else move

    def element_rates(self, group: Group, state: dict[str, Any]) -> Tensor:
        """Of the gradient of the mean loss: lr num_data / 2, times G if preconditioned."""
        drift = torch.tensor(0.5 * float(group["lr"]) * group["num_data"], device="cpu")
        return drift / (state["v"].sqrt() + EPS) if group["preconditioned"] else drift


class StepNoise:
    """Noise with mean 0 and variance 1, from 16 random bits a pair of elements."""

    def __init__(self, state: Tensor) -> None:
        self._bits = np.random.SFC64(0)
        whole = self._bits.state
        whole["state"]["state"] = state.cpu().numpy().view(np.uint64).copy()
        self._bits.state = whole
        self._index = torch.empty(0, dtype=torch.int32)
        self._pairs = torch.empty(0, dtype=PAIRS.dtype)

    @staticmethod
    def begin(seed: int) -> Tensor:
        """The state of a generator seeded with `seed`."""
        return _words(np.random.SFC64(derive(seed, "langevin")))

    def like(self, block: Tensor) -> Tensor:
        """Noise of the block's shape, dtype and device; the next call overwrites it."""
        count = -(-block.numel() // 2)
        if count > len(self._index):  # memory is made once a step: new memory costs as much as the noise
            self._index = torch.empty(count, dtype=torch.int32)
            self._pairs = torch.empty(count, dtype=PAIRS.dtype)
        index, pairs = self._index[:count], self._pairs[:count]
        bits = self._bits.random_raw(-(-count // 4)).view(np.uint16)[:count]
        np.copyto(index.numpy(), np.right_shift(bits, 16 - INDEX_BITS, out=bits))
        values = torch.index_select(PAIRS, 0, index, out=pairs).view(torch.float32)
        return values[: block.numel()].view(block.shape).to(block)

    def state(self) -> Tensor:
        """The generator's state, an int64 vector."""
        return _words(self._bits)


def _words(bits: np.random.SFC64) -> Tensor:
    return torch.from_numpy(bits.state["state"]["state"].view(np.int64).copy())


def _quantiles(count: int) -> Tensor:
    """The normal distribution in `count` equally likely values, with variance 1."""
    middles = torch.arange(1 - count, count, 2, dtype=torch.float64) / count
    values = middles.erfinv()
    return (values / values.square().mean().sqrt()).float()


def _pairs(bits: int) -> Tensor:
    """Quantiles x, each with y and with -y, y the quantile at x's number with its bits reversed: the pairs are spread
    evenly over the plane, and all odd moments, also the mixed ones, are 0."""
    number = torch.arange(2**bits)
    reverse = torch.zeros_like(number)
    for bit in range(bits):
        flipped = bit % 3 == 0  # or the extremes would meet: 0 reversed is 0
        reverse |= (((number >> bit) & 1) ^ flipped) << (bits - 1 - bit)
    x, y = _quantiles(2**bits), _quantiles(2**bits)[reverse]
    return torch.stack([x.repeat(2), torch.cat([y, -y])], 1).view(torch.int64).squeeze(1)


INDEX_BITS = 14
PAIRS = _pairs(INDEX_BITS - 1)  # two single-precision numbers in 64 bits


class SampleCollector:
    """Copies of every `thin`-th vector after the first `burn_in` steps, at most the newest `max_samples`."""

    def __init__(self, burn_in: int, thin: int = 1, max_samples: int | None = None) -> None:
        if burn_in < 0 or thin < 1 or (max_samples is not None and max_samples < 1):
            raise UsageError(
                f"burn_in must be at least 0, thin and max_samples at least 1, got {burn_in}, {thin} and {max_samples}"
            )
        self.burn_in, self.thin, self.max_samples = burn_in, thin, max_samples
        self._kept: list[Tensor] = []

    def __len__(self) -> int:
        return len(self._kept)

    def offer(self, step: int, vector: Tensor) -> bool:
        """Whether the vector (N,) after `step` steps was kept."""
        if step <= self.burn_in or (step - self.burn_in) % self.thin:
            return False
        self._kept.append(vector.detach().clone())
        if self.max_samples is not None:
            del self._kept[: -self.max_samples]
        return True

    def samples(self) -> Tensor:
        """The kept vectors (R, N), oldest first."""
        if not self._kept:
            raise UsageError(f"no sample was kept yet: the first comes at step {self.burn_in + self.thin}")
        return torch.stack(self._kept)

    def state(self) -> dict[str, Any]:
        """What was kept."""
        return {"kept": list(self._kept)}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from `state`."""
        self._kept = list(state["kept"])
