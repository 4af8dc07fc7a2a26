"""Weights drawn with the KL's gradient attached, written by hand.

    w = mean + sd eps,   sd = softplus(rho),   kl = KL(N(mean, sd^2) || N(prior_mean, prior_sd^2))

For a loss L with G = dL/dw and c = dL/dkl, p = 1 / prior_sd^2:
    dL/dmean = sum_s G_s + c p (mean - prior_mean)
    dL/drho  = (sum_s G_s eps_s + c (p sd - 1 / sd)) sigmoid(rho)

The same as autograd gives for `posterior.sample` and `kl_divergence`, at less than half the passes over the
vector, which is what a step of a large dense network spends its time on. The gradient does not need the
KL's value, a third of the remaining cost: the handle returned beside the weights is 0 and carries only the
gradient; whoever wants the value adds it (see elbo.Loss.kl).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from posterity.bayesian import BayesianModule
from posterity.objectives.divergence import kl_divergence
from posterity.posteriors import MeanField
from posterity.priors import FlatGaussian


class _Draw(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, mean: Tensor, rho: Tensor, noise: Tensor, prior: FlatGaussian
    ) -> tuple[Tensor, Tensor]:
        sd = F.softplus(rho)
        ctx.save_for_backward(mean, rho, sd, noise, prior.precision, prior.centre)
        return torch.addcmul(mean, sd, noise), mean.new_zeros(())

    @staticmethod
    @torch.autograd.function.once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, grad_weights: Tensor, grad_kl: Tensor) -> tuple[Tensor | None, ...]:
        mean, rho, sd, noise, precision, centre = ctx.saved_tensors
        grad_sd, grad_mean = grad_weights * noise, grad_weights
        if noise.dim() == 2:
            grad_sd, grad_mean = grad_sd.sum(0), grad_mean.sum(0)
        factor = float(grad_kl)
        if factor:
            shift = mean if centre is None else mean - centre
            grad_mean = torch.addcmul(grad_mean, shift, precision, value=factor)
            grad_sd.addcmul_(sd, precision, value=factor).addcdiv_(sd.new_ones(1), sd, value=-factor)
        return grad_mean, torch.ops.aten.softplus_backward(grad_sd, rho, 1, 20), None, None


def draw_with_kl(net: BayesianModule, samples: int = 1) -> tuple[Tensor, Tensor]:
    """Weights (N,), or (`samples`, N) for more than one, and a zero that has the gradient of their KL."""
    posterior, count = net.posterior, None if samples == 1 else samples
    if isinstance(posterior, MeanField):
        weights, handle = _Draw.apply(posterior.mean, posterior.rho, net.noise(count), net.prior)  # type: ignore[no-untyped-call]
        return weights, handle
    kl = kl_divergence(posterior, net.prior)
    return net.draw(count), kl - kl.detach()
