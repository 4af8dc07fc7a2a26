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

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from posterity.core.errors import UsageError
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
        if variance.stride() != mean.stride():
            variance = torch.empty_like(mean).copy_(variance)
        by_channel = spread if linear.positions else None
        out: Tensor = _Perturb.apply(mean, variance, by_channel, linear.positions, noise)  # type: ignore[no-untyped-call]
        return out


class _Perturb(torch.autograd.Function):
    """mean + sqrt(variance) eps + sqrt(by_channel) eps', where eps' is the same at all positions of a channel.

    For a loss L with gradient G in the output, where a variance of 0 has a gradient of 0,
        dL/dvariance   = G o eps / (2 sd)
        dL/dby_channel = sum over examples of eps' / (2 sd') o (sum over positions of G)

    Memory traffic is the cost: the result takes the mean's place, and the slope, eps / (2 sd), that of the noise.
    """

    @staticmethod
    def forward(
        ctx: Any, mean: Tensor, variance: Tensor, by_channel: Tensor | None, positions: int, noise: NoiseSource
    ) -> Tensor:
        # Laid out as the mean is in memory (channels-last, say), which is what makes the arithmetic fast.
        eps = noise.normal((mean.numel(),), mean).as_strided(mean.shape, mean.stride())
        sd = variance.detach().clamp_min_(0).sqrt_()  # a convolution by Fourier or Winograd transform may round below 0
        mean.addcmul_(sd, eps)
        slopes, ctx.positions = [_slope(eps, sd)], positions
        if by_channel is not None:
            shape = mean.shape[: mean.dim() - positions]
            eps, sd = noise.normal((shape.numel(),), mean).view(shape), by_channel.sqrt()
            mean.add_((sd * eps).view(*shape, *[1] * positions))
            slopes.append(_slope(eps, sd))
        ctx.mark_dirty(mean)
        ctx.save_for_backward(*slopes)
        return mean

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled():  # that is, with create_graph
            raise UsageError("estimator 'local' has no second derivatives: take 'sample' or 'flipout' for them")
        slope, *by_channel = ctx.saved_tensors
        to_channel = None
        if by_channel:
            by_example = grad.flatten(-ctx.positions).sum(-1).mul_(by_channel[0])
            to_channel = by_example.view(-1, by_example.shape[-1]).sum(0)
        return grad, grad * slope, to_channel, None, None


def _slope(eps: Tensor, sd: Tensor) -> Tensor:
    """eps / (2 sd), 0 where sd is; in the place of both."""
    return eps.div_(F.threshold(sd.mul_(2), 0, math.inf, inplace=True))
