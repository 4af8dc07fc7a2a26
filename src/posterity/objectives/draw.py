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

FEW_WEIGHTS = 2**17  # below this, calls cost more than memory traffic: join the parts' gradients first


class _Draw(torch.autograd.Function):
    """(mean, rho, noise) -> the parts of w by weight tensor, and the KL's handle.

    Parts, not one vector: their gradients then arrive apart and need not be joined first.
    """

    @staticmethod
    def forward(
        ctx: Any, mean: Tensor, rho: Tensor, noise: Tensor, prior: FlatGaussian, sizes: list[int]
    ) -> tuple[Tensor, ...]:
        sd = F.softplus(rho)
        ctx.save_for_backward(mean, rho, sd, noise, prior.precision, prior.centre)
        ctx.sizes = sizes
        return (*torch.addcmul(mean, sd, noise).split(sizes, dim=-1), mean.new_zeros(()))

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        mean, rho, sd, noise, precision, centre = ctx.saved_tensors
        factor = float(grads[-1])
        # In place, as memory traffic is the cost here: the noise is needed for nothing else. A second backward
        # would find it changed, and autograd says so.
        grad_mean, grad_sd = torch.empty_like(mean), noise
        shift = mean if centre is None else mean - centre
        vectors = (grad_mean, grad_sd, shift, precision)
        sizes, grads = ctx.sizes, grads[:-1]
        if len(mean) < FEW_WEIGHTS:
            sizes, grads = [len(mean)], (torch.cat(grads, dim=-1),)
        for grad, *parts in zip(grads, *(v.split(sizes, dim=-1) for v in vectors), strict=True):
            part_mean, part_sd, part_shift, part_precision = parts
            part_sd.mul_(grad)
            summed = grad.sum(0) if grad.dim() == 2 else grad
            torch.addcmul(summed, part_shift, part_precision, value=factor, out=part_mean)
        grad_sd = grad_sd.sum(0) if grad_sd.dim() == 2 else grad_sd
        if factor:  # without the KL, an sd that has underflowed to 0 must not make 0 / 0
            grad_sd.addcmul_(sd, precision, value=factor).addcdiv_(sd.new_ones(1), sd, value=-factor)
        grad_rho = torch.ops.aten.softplus_backward.grad_input(grad_sd, rho, 1, 20, grad_input=grad_sd)
        return grad_mean, grad_rho, None, None, None


def draw_with_kl(net: BayesianModule, samples: int = 1) -> tuple[dict[str, Tensor], Tensor]:
    """Weights by name, (S, *shape) for more than one sample, and a zero that has the gradient of their KL."""
    posterior, count = net.posterior, None if samples == 1 else samples
    if isinstance(posterior, MeanField):
        inputs = (posterior.mean, posterior.rho, net.noise(count), net.prior, net.layout.sizes)
        *parts, handle = _Draw.apply(*inputs)  # type: ignore[no-untyped-call]
        return net.layout.shape(parts), handle
    kl = kl_divergence(posterior, net.prior)
    return net.layout.views(net.draw(count)), kl - kl.detach()
