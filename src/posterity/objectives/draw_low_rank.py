"""Weights drawn from a low-rank posterior with the KL's gradient attached, written by hand.

    w = mean + s e,   e = eps + A^T z,   s = softplus(rho),   kl = KL(q || N(prior_mean, prior_sd^2))

For a loss L with G = dL/dw and c = dL/dkl, p = 1 / prior_sd^2, A = D / sqrt(R - 1), M = I + A A^T
(posteriors.low_rank, which has the KL's own derivation):
    dL/dmean = sum_k G_k + c p (mean - prior_mean)
    dL/ds    = sum_k G_k e_k + c (p s (1 + sum_r A_r^2) - 1 / s)
    dL/dD    = s sum_k z_k^T G_k / sqrt(R - 1) + c (p s^2 - M^-1) D / (R - 1)

The same as autograd gives for `posterior.sample` and `kl_divergence`, in three passes over the deviations forward and
one back, block by block so that what is made of a block stays in the cache.

Limits: D = 0 gives the mean-field draw (objectives.draw), with a gradient of D that is the likelihood's alone.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from posterity.bayesian import BayesianModule
from posterity.objectives.draw import sum_log_sd
from posterity.posteriors.low_rank import BLOCK, capacitance
from posterity.priors import FlatGaussian


def draw_low_rank(net: BayesianModule, samples: int) -> tuple[dict[str, Tensor], Tensor]:
    """Weights by name, (S, *shape) for more than one sample, and their KL."""
    q = net.posterior
    weights, kl = _Draw.apply(q.mean, q.rho, q.deviations, net.noise(samples), net.prior)  # type: ignore[no-untyped-call]
    return net.layout.views(weights[0] if samples == 1 else weights), kl


class _Draw(torch.autograd.Function):
    """(mean, rho, deviations, noise) -> the weights, and the KL."""

    @staticmethod
    def forward(
        ctx: Any, mean: Tensor, rho: Tensor, deviations: Tensor, noise: Tensor, prior: FlatGaussian
    ) -> tuple[Tensor, Tensor]:
        sd = F.softplus(rho)
        own, shared = noise.split([len(mean), len(deviations)], dim=-1)
        together = torch.addmm(own, shared, deviations, alpha=1 / math.sqrt(len(deviations) - 1))
        root = capacitance(deviations)
        blocks = deviations.split(BLOCK, dim=-1)
        wide = torch.cat([torch.linalg.vecdot(d, d, dim=0) for d in blocks]).div_(len(deviations) - 1).add_(1)
        kept = mean, rho, deviations, sd, together, shared, prior.centre, prior.precision, root, wide
        ctx.save_for_backward(*kept)
        squares = (mean if prior.centre is None else mean - prior.centre).square().addcmul_(sd * wide, sd)
        logs = sum_log_sd(rho, sd) + root.diagonal().log().sum().to(sd)
        kl = 0.5 * (torch.dot(squares, prior.precision) - len(mean)) - logs - prior.half_log_precision
        return torch.addcmul(mean, sd, together), kl

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor, factor: Tensor) -> tuple[Tensor | None, ...]:
        mean, rho, deviations, sd, together, shared, centre, precision, root, wide = ctx.saved_tensors
        c, count = float(factor), len(deviations) - 1
        to_mean = torch.addcmul(grad.sum(0), mean if centre is None else mean - centre, precision, value=c)
        to_sd, to_deviations = (grad * together).sum(0), torch.empty_like(deviations)
        pull = -c / count * torch.cholesky_inverse(root).to(sd) if c else None
        vectors = (t.split(BLOCK, dim=-1) for t in (deviations, sd, wide, precision, grad, to_sd, to_deviations))
        for block, s, wider, p, g, out_sd, out in zip(*vectors, strict=True):
            torch.mm(shared.T, g, out=out).mul_(s / math.sqrt(count))
            if pull is None:
                continue
            pressure = p * s * c
            out_sd.addcmul_(pressure, wider).sub_(s.reciprocal(), alpha=c)
            out.addmm_(pull, block).addcmul_(block, pressure.mul_(s), value=1 / count)
        to_rho = torch.ops.aten.softplus_backward.grad_input(to_sd, rho, 1, 20, grad_input=to_sd)
        return to_mean, to_rho, to_deviations, None, None
