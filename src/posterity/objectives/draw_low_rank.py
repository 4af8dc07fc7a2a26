"""Weights drawn from a low-rank posterior with the KL's gradient attached, written by hand.

    w = mean + s eps + D^T z / sqrt(R - 1),   s = softplus(rho),   kl = KL(q || N(prior_mean, prior_sd^2))

For a loss L with G = dL/dw and c = dL/dkl, p = 1 / prior_sd^2, A = D / (s sqrt(R - 1)), M = I + A A^T and
P = M^-1 A (posteriors.low_rank, which has the KL's own derivation):
    dL/dmean = sum_k G_k + c p (mean - prior_mean)
    dL/ds    = sum_k G_k eps_k + c (p s - (1 - sum_r A_r P_r) / s)
    dL/dD    = sum_k z_k^T G_k / sqrt(R - 1) + c (p D / (R - 1) - P / (s sqrt(R - 1)))

The same as autograd gives for `posterior.sample` and `kl_divergence`, in one pass over the deviations forward and one
back, block by block so that what is made of a block stays in the cache. Only A A^T needs double precision: P is at most
as large as A, so that its rounding is nothing beside the 1 / s that stands with it.

Limits: D = 0 gives the mean-field draw (objectives.draw), with a gradient of D that is the likelihood's alone.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from posterity.posteriors import LowRank
from posterity.posteriors.low_rank import BLOCK, capacitance
from posterity.priors import FlatGaussian


def draw_low_rank(posterior: LowRank, prior: FlatGaussian, noise: Tensor) -> tuple[Tensor, Tensor]:
    """Weights (S, N) for `noise` (S, N + R), and a zero that has the gradient of the KL."""
    weights, handle = _Draw.apply(posterior.mean, posterior.rho, posterior.deviations, noise, prior)  # type: ignore[no-untyped-call]
    return weights, handle


class _Draw(torch.autograd.Function):
    """(mean, rho, deviations, noise) -> the weights, and the KL's handle."""

    @staticmethod
    def forward(
        ctx: Any, mean: Tensor, rho: Tensor, deviations: Tensor, noise: Tensor, prior: FlatGaussian
    ) -> tuple[Tensor, Tensor]:
        sd = F.softplus(rho)
        own, shared = noise.split([len(mean), len(deviations)], dim=-1)
        weights = torch.addcmul(mean, sd, own)
        weights.addmm_(shared, deviations, alpha=1 / math.sqrt(len(deviations) - 1))
        ctx.save_for_backward(mean, rho, deviations, sd, noise, prior.centre, prior.precision)
        return weights, mean.new_zeros(())

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor, factor: Tensor) -> tuple[Tensor | None, ...]:
        mean, rho, deviations, sd, noise, centre, precision = ctx.saved_tensors
        c, size = float(factor), math.sqrt(len(deviations) - 1)
        own, shared = noise.split([len(mean), len(deviations)], dim=-1)
        to_mean = torch.addcmul(grad.sum(0), mean if centre is None else mean - centre, precision, value=c)
        to_sd, to_deviations = (grad * own).sum(0), torch.empty_like(deviations)
        inverse = torch.cholesky_inverse(capacitance(deviations, sd)).to(sd) if c else None
        vectors = (t.split(BLOCK, dim=-1) for t in (deviations, sd, precision, grad, to_sd, to_deviations))
        for block, s, p, g, out_sd, out in zip(*vectors, strict=True):
            torch.mm(shared.T, g, out=out).div_(size)
            if inverse is None:
                continue
            unit = (s * size).reciprocal_()
            scaled = block * unit
            pulled = inverse @ scaled
            taken = torch.linalg.vecdot(scaled, pulled, dim=0)
            out_sd.addcmul_(p, s, value=c).sub_((1 - taken).div_(s), alpha=c)
            out.addcmul_(block, p, value=c / size**2).addcmul_(pulled, unit, value=-c)
        to_rho = torch.ops.aten.softplus_backward.grad_input(to_sd, rho, 1, 20, grad_input=to_sd)
        return to_mean, to_rho, to_deviations, None, None
