"""KL(q || prior), summed over all weights, in nats.

    Gaussian q and prior, z = (mean - prior_mean) / prior_sd, r = sd / prior_sd:
        kl          = sum_i [ (r_i^2 + z_i^2 - 1) / 2 - log r_i ]
        d kl/d mean = (mean - prior_mean) / prior_sd^2
        d kl/d sd   = sd / prior_sd^2 - 1 / sd
    Point q: -log prior(mean), the KL up to a constant that no parameter changes.

Limits: q = prior gives 0; sd -> 0 gives +inf logarithmically.
The gradients are written by hand: autograd would build twice as many passes over the vector.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from posterity.core.layout import Layout
from posterity.posteriors import MeanField, Point, Posterior
from posterity.priors import FlatGaussian


@dataclass(frozen=True)
class Divergence:
    """The KL's value, differentiable, and its terms by weight for a closer look."""

    value: Tensor
    terms: tuple[Tensor, ...]

    def by_weight(self) -> Tensor:
        """Each weight's share (N,), detached."""
        if len(self.terms) == 1:
            return self.terms[0]
        shift, ratio = self.terms
        return 0.5 * (ratio.square() + shift.square() - 1) - ratio.log()

    def by_layer(self, layout: Layout) -> dict[str, Tensor]:
        """Each layer's share."""
        return layout.sum_by_layer(self.by_weight())


class _GaussianKL(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, mean: Tensor, sd: Tensor, prior_mean: Tensor, prior_sd: Tensor) -> tuple[Tensor, ...]:
        shift = (mean - prior_mean).div_(prior_sd)
        ratio = sd / prior_sd
        ctx.save_for_backward(shift, ratio, prior_sd)
        ctx.mark_non_differentiable(shift, ratio)
        squares = torch.dot(shift, shift) + torch.dot(ratio, ratio)
        return 0.5 * (squares - shift.numel()) - ratio.log().sum(), shift, ratio

    @staticmethod
    @torch.autograd.function.once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, grad: Tensor, *_: Any) -> tuple[Tensor, Tensor, None, None]:
        shift, ratio, prior_sd = ctx.saved_tensors
        factor = grad / prior_sd
        return shift * factor, (ratio - ratio.reciprocal()).mul_(factor), None, None


def kl_divergence(posterior: Posterior, prior: FlatGaussian, *, sd: Tensor | None = None) -> Divergence:
    """KL(posterior || prior); `sd` is the posterior's if it has been computed already."""
    if isinstance(posterior, MeanField):
        scale = posterior.sd if sd is None else sd
        value, shift, ratio = _GaussianKL.apply(posterior.mean, scale, prior.mean, prior.sd)  # type: ignore[no-untyped-call]
        return Divergence(value, (shift, ratio))
    if isinstance(posterior, Point):
        by_weight = -prior.log_density_by_weight(posterior.mean)
        return Divergence(by_weight.sum(), (by_weight.detach(),))
    raise TypeError(f"no closed-form KL from {type(posterior).__name__}")
