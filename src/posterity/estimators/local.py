"""Local reparameterisation: noise on the outputs of linear maps instead of on their weights [1].

    linear        out ~ N(a mean^T + b_mean, a^2 (sd^2)^T + b_sd^2), independent for each row of a
    convolution   out ~ N(a * mean, a^2 * sd^2), independent at each output element,
                  plus a bias N(b_mean, b_sd^2), one for each example and channel

Of one example's linear map this is the exact distribution of the output: the expected loss is that of `sample`, and
its gradient's variance falls with the size of the batch. Of convolutions, and of linear maps over further leading axes
(positions of a sequence), each element's distribution is exact and the correlation between positions is dropped, the
method's standard approximation. So is the correlation between examples, which only batch statistics can see.

Limits: sd = 0, or an input of zeros, gives the mean, with a finite gradient.

[1] Kingma, Salimans, Welling, Variational dropout and the local reparameterization trick, 2015.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from posterity.core.randomness import NoiseSource
from posterity.estimators.interception import LinearMap, Moments, Rule


class Local(Rule):
    """Mean and variance by two maps, noise on the output."""

    perturbs = False

    def apply(
        self, linear: LinearMap, a: Tensor, weight: Moments, bias: Moments | Tensor | None, noise: NoiseSource
    ) -> Tensor:
        """The random output of `linear` for the input `a`."""
        shift, spread = (bias.mean, bias.spread) if isinstance(bias, Moments) else (bias, None)
        mean = linear(a, weight.mean, shift)
        variance = linear(a.square(), weight.spread, None if linear.positions else spread)
        out = perturbed(mean, variance, noise)
        if not linear.positions or spread is None:
            return out
        by_channel = spread.view(-1, *[1] * linear.positions).expand(*linear.examples(a), -1, *[1] * linear.positions)
        return out + perturbed(torch.zeros_like(by_channel), by_channel, noise)


def perturbed(mean: Tensor, variance: Tensor, noise: NoiseSource) -> Tensor:
    """mean + sqrt(variance) eps, with a gradient of 0 where the variance is 0."""
    # Laid out as the mean is in memory (channels-last, say), which is what makes the arithmetic fast.
    eps = noise.normal((mean.numel(),), mean).as_strided(mean.shape, torch.empty_like(mean).stride())
    result: Tensor = _Perturb.apply(mean, variance, eps)  # type: ignore[no-untyped-call]
    return result


class _Perturb(torch.autograd.Function):
    """d out / d variance = eps / (2 sd)."""

    @staticmethod
    def forward(ctx: Any, mean: Tensor, variance: Tensor, eps: Tensor) -> Tensor:
        sd = variance.clamp_min(0).sqrt_()  # a convolution by Fourier or Winograd transform may round below 0
        out = torch.addcmul(mean, sd, eps)
        ctx.save_for_backward(eps.div_(sd.mul_(2)).masked_fill_(sd == 0, 0))
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        (slope,) = ctx.saved_tensors
        return grad, grad * slope, None
