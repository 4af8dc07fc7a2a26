"""Expectations under independent Gaussians w ~ N(mean, sd^2), deterministic and differentiable.

    E |w|       = sd sqrt(2 / pi) exp(-u^2 / 2) + mean erf(u / sqrt 2),    u = mean / sd              (folded normal)
    E f(w)      = sum_k c_k f(mean + sd x_k)                                                         (Gauss-Hermite)
    E ||w||     = pi^(-1/2) int_0^inf (1 - M(t)) / t^2 dt,
    M(t)        = E exp(-t^2 ||w||^2) = prod_i (1 + 2 t^2 sd_i^2)^(-1/2) exp(-t^2 mean_i^2 / (1 + 2 t^2 sd_i^2))

The last holds because int_0^inf (1 - exp(-a t^2)) / t^2 dt = sqrt(pi a). With t = exp(u) / sqrt(E ||w||^2) it is a
trapezoidal sum in u whose error falls exponentially as the step shrinks. Its two ends are geometric series,
(1 - M) / t -> t E ||w||^2 for t -> 0 and 1 / t for t -> inf, which are summed exactly. So the KL to a group lasso's
prior needs no sampling.

Memory: a quadrature over N weights and K nodes never holds more than CHUNK numbers of it, also for the gradient, which
is taken chunk by chunk together with the value.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

CHUNK = 2**20
NODES = 96  # of Gauss-Hermite, 0.3 sd apart: enough unless q is wider than the details of the prior
STEP, FIRST, LAST = 0.3, -16, 24  # u from -4.8 to 7.2: the ends' leading terms are then right to 1e-6

# A chunk of an expectation: (mean, sd) of the weights in a slice, and the slice, to one value for each of them.
Chunk = Callable[[Tensor, Tensor, slice], Tensor]


def expected_abs(mean: Tensor, sd: Tensor) -> Tensor:
    """E |w|, element by element; |mean| where sd is 0."""
    shift = mean / sd.clamp_min(torch.finfo(sd.dtype).tiny)
    spread = math.sqrt(2 / math.pi) * sd * (-0.5 * shift.square()).exp()
    return spread + mean * torch.erf(shift * math.sqrt(0.5))


def hermite(count: int, like: Tensor) -> tuple[Tensor, Tensor]:
    """Nodes and weights (K, 1) of Gauss-Hermite quadrature for a standard normal."""
    nodes, weights = _hermite(count)
    return tuple(torch.from_numpy(a).to(like).unsqueeze(-1) for a in (nodes, weights))  # type: ignore[return-value]


@functools.cache
def _hermite(count: int) -> tuple[Any, Any]:
    nodes, weights = np.polynomial.hermite_e.hermegauss(count)
    return nodes, weights / weights.sum()


def legendre(count: int, like: Tensor) -> tuple[Tensor, Tensor]:
    """Nodes and weights (K, 1) of Gauss-Legendre quadrature on [-1, 1]."""
    return tuple(torch.from_numpy(a).to(like).unsqueeze(-1) for a in _legendre(count))  # type: ignore[return-value]


@functools.cache
def _legendre(count: int) -> tuple[Any, Any]:
    nodes, weights = np.polynomial.legendre.leggauss(count)
    return nodes, weights


def in_chunks(chunk: Chunk, mean: Tensor, sd: Tensor, nodes: int) -> Tensor:
    """The expectation (N,) whose chunks `chunk` gives, with bounded memory, differentiable once in mean and sd."""
    wanted = torch.is_grad_enabled() and (mean.requires_grad or sd.requires_grad)
    result: Tensor = _InChunks.apply(mean, sd, chunk, max(1, CHUNK // nodes), wanted)  # type: ignore[no-untyped-call]
    return result


class _InChunks(torch.autograd.Function):
    """Value and slopes chunk by chunk; the graph of one chunk is gone before the next is made."""

    @staticmethod
    def forward(ctx: Any, mean: Tensor, sd: Tensor, chunk: Chunk, length: int, wanted: bool) -> Tensor:
        values, slopes = torch.empty_like(mean), (torch.zeros_like(mean), torch.zeros_like(sd))
        for start in range(0, len(mean), length):
            where = slice(start, start + length)
            inputs = [v[where].detach().requires_grad_(wanted) for v in (mean, sd)]
            with torch.set_grad_enabled(wanted):
                value = chunk(inputs[0], inputs[1], where)
                total = value.sum()
            values[where] = value.detach()
            if wanted:
                for slope, grad in zip(slopes, torch.autograd.grad(total, inputs), strict=True):
                    slope[where] = grad
        ctx.save_for_backward(*slopes)
        return values

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        to_mean, to_sd = ctx.saved_tensors
        return grad * to_mean, grad * to_sd, None, None, None


def expected_norm(mean: Tensor, sd: Tensor) -> Tensor:
    """E ||w|| (G,) of groups of weights with means and standard deviations (G, d)."""
    result: Tensor = _ExpectedNorm.apply(mean, sd)  # type: ignore[no-untyped-call]
    return result


class _ExpectedNorm(torch.autograd.Function):
    """One pass over the weights for each node, for the value and its slopes.

    d/dmean_i = pi^(-1/2) int M 2 mean_i / c_i dt,    d/dsd_i^2 = pi^(-1/2) int M (1 / c_i - 2 t^2 mean_i^2 / c_i^2) dt,
    c_i = 1 + 2 t^2 sd_i^2.
    """

    @staticmethod
    def forward(ctx: Any, mean: Tensor, sd: Tensor) -> Tensor:
        square, variance = mean.square(), sd.square()
        size = (square + variance).sum(-1, keepdim=True).sqrt().clamp_min(torch.finfo(mean.dtype).tiny ** 0.25)
        total = torch.zeros_like(size)
        to_mean, to_variance = torch.zeros_like(mean), torch.zeros_like(mean)
        for k in range(FIRST, LAST + 1):
            t2 = (math.exp(STEP * k) / size).square()
            wide = 2 * t2 * variance
            curb = 1 / (1 + wide)
            bend = t2 * square * curb
            moment = (-0.5 * wide.log1p() - bend).sum(-1, keepdim=True)
            total -= torch.expm1(moment) * math.exp(-STEP * k)
            share = moment.exp() * math.exp(STEP * k) * curb
            to_mean += share
            to_variance += share * (1 - 2 * bend)
        # The slopes' own ends: t -> 0, where M = c = 1; for t -> inf they vanish faster than the value's.
        low, high = _geometric(-(FIRST - 1)), _geometric(LAST + 1)
        factor = STEP / math.sqrt(math.pi)
        ctx.save_for_backward(2 * mean * factor * (to_mean + low) / size, 2 * sd * factor * (to_variance + low) / size)
        return (factor * size * (total + low + high)).squeeze(-1)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        to_mean, to_sd = ctx.saved_tensors
        return grad.unsqueeze(-1) * to_mean, grad.unsqueeze(-1) * to_sd


def _geometric(first: int) -> float:
    """sum of exp(-STEP k) for k = first, first + 1, ..."""
    return math.exp(-STEP * first) / -math.expm1(-STEP)
