"""Weights drawn from a low-rank posterior with the KL's gradient attached, written by hand.

    w = mean + s e,   e = eps + A^T z,   s = softplus(rho),   kl = KL(q || N(prior_mean, prior_sd^2))

For a loss L with G = dL/dw and c = dL/dkl, p = 1 / prior_sd^2, A = D / sqrt(R - 1), M = I + A A^T
(posteriors.low_rank, which has the KL's own derivation):
    dL/dmean = sum_k G_k + c p (mean - prior_mean)
    dL/ds    = sum_k G_k e_k + c (p s (1 + sum_r A_r^2) - 1 / s)
    dL/dD    = s sum_k z_k^T G_k / sqrt(R - 1) + c (p s^2 - M^-1) D / (R - 1)

The same as autograd gives for `posterior.sample` and `kl_divergence`, in one pass over the deviations forward and two
back, block by block so that what is made of a block stays in the cache.

Limits: D = 0 gives the mean-field draw (objectives.draw), with a gradient of D that is the likelihood's alone.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from posterity.bayesian import BayesianModule
from posterity.posteriors.low_rank import BLOCK, capacitance
from posterity.priors import FlatGaussian


def draw_low_rank(net: BayesianModule, samples: int) -> tuple[dict[str, Tensor], Tensor]:
    """Weights by name, (S, *shape) for more than one sample, and a zero that has the gradient of their KL."""
    q = net.posterior
    weights, handle = _Draw.apply(q.mean, q.rho, q.deviations, net.noise(samples), net.prior)  # type: ignore[no-untyped-call]
    return net.layout.views(weights[0] if samples == 1 else weights), handle


class _Draw(torch.autograd.Function):
    """(mean, rho, deviations, noise) -> the weights, and the KL's handle."""

    @staticmethod
    def forward(
        ctx: Any, mean: Tensor, rho: Tensor, deviations: Tensor, noise: Tensor, prior: FlatGaussian
    ) -> tuple[Tensor, Tensor]:
        sd = F.softplus(rho)
        own, shared = noise.split([len(mean), len(deviations)], dim=-1)
        together = torch.addmm(own, shared, deviations, alpha=1 / math.sqrt(len(deviations) - 1))
        ctx.save_for_backward(mean, rho, deviations, sd, together, shared, prior.centre, prior.precision)
        return torch.addcmul(mean, sd, together), mean.new_zeros(())

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor, factor: Tensor) -> tuple[Tensor | None, ...]:
        mean, rho, deviations, sd, together, shared, centre, precision = ctx.saved_tensors
        c, count = float(factor), len(deviations) - 1
        to_mean = torch.addcmul(grad.sum(0), mean if centre is None else mean - centre, precision, value=c)
        to_sd, to_deviations = (grad * together).sum(0), torch.empty_like(deviations)
        pull = -c / count * torch.cholesky_inverse(capacitance(deviations)).to(sd) if c else None
        vectors = (t.split(BLOCK, dim=-1) for t in (deviations, sd, precision, grad, to_sd, to_deviations))
        for block, s, p, g, out_sd, out in zip(*vectors, strict=True):
            torch.mm(shared.T, g, out=out).mul_(s / math.sqrt(count))
            if pull is None:
                continue
            pressure = p * s * c
            wide = torch.linalg.vecdot(block, block, dim=0).div_(count).add_(1)
            out_sd.addcmul_(pressure, wide).sub_(s.reciprocal(), alpha=c)
            out.addmm_(pull, block).addcmul_(block, pressure.mul_(s), value=1 / count)
        to_rho = torch.ops.aten.softplus_backward.grad_input(to_sd, rho, 1, 20, grad_input=to_sd)
        return to_mean, to_rho, to_deviations, None, None
