"""The tensors of one pass, by weight: means, spreads, and samples that are filled only when they are used.

    spread  sd^2 (the variance)  or  sd eps (the perturbation)
    sample  mean + sd eps

For a loss L with gradients M, V, G in mean, spread and sample:
    dL/dmean = M + G
    dL/dsd   = 2 sd V + eps G        (variance)
             = eps (V + G)           (perturbation)

Written by hand because these are passes over all weights, of which autograd would make several more; and because a
tensor that is filled after it was made is nothing autograd could follow.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from posterity.core.layout import Layout
from posterity.core.randomness import NoiseSource


class PassWeights:
    """Means, spreads and samples of one pass, each a list in the layout's order.

    With `noise` (N,) the spread is the perturbation; without, the variance, and a sample draws noise when filled.
    """

    def __init__(self, mean: Tensor, sd: Tensor, layout: Layout, noise: Tensor | None = None) -> None:
        self.layout, self.sizes, self.noise = layout, layout.sizes, noise
        count = len(self.sizes)
        self.filled = [False] * count
        self.noises: list[Tensor | None] = [None] * count if noise is None else list(noise.split(self.sizes))
        self._values = (mean.detach().split(self.sizes), sd.detach().split(self.sizes))
        self._parts: Sequence[Tensor] = ()
        tensors = _Tensors.apply(mean, sd, self)  # type: ignore[no-untyped-call]
        self.means, self.spreads, self.samples = tensors[:count], tensors[count : 2 * count], tensors[2 * count :]

    def fill(self, place: int, source: NoiseSource) -> None:
        """Make the sample at `place` what it stands for."""
        if self.filled[place]:
            return
        self.filled[place] = True
        mean, sd = (values[place] for values in self._values)
        noise = self.noises[place]
        if noise is None:
            noise = self.noises[place] = source.normal((self.sizes[place],), mean)
        with torch.no_grad():
            torch.addcmul(mean, sd, noise, out=self._parts[place])


class _Tensors(torch.autograd.Function):
    """(mean, sd) -> means, spreads and unfilled samples by weight."""

    @staticmethod
    def forward(ctx: Any, mean: Tensor, sd: Tensor, weights: PassWeights) -> tuple[Tensor, ...]:
        spread = sd.square() if weights.noise is None else sd * weights.noise
        ctx.save_for_backward(sd)
        ctx.set_materialize_grads(False)
        ctx.weights = weights
        buffer = torch.full_like(mean, math.nan)
        # `data` has a version counter of its own: filling one sample must not count as a change of the others.
        weights._parts = buffer.data.split(weights.sizes)
        return tuple(t for v in (mean.detach(), spread, buffer) for t in weights.layout.views(v).values())

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        weights: PassWeights = ctx.weights
        (sd,) = ctx.saved_tensors
        entries, count = weights.layout.entries, len(weights.sizes)
        flats = [None if g is None else entries[i % count].flat(g) for i, g in enumerate(grads)]
        to_mean, to_sd = torch.empty_like(sd), torch.empty_like(sd)
        parts = zip(*(v.split(weights.sizes) for v in (to_mean, to_sd, sd)), strict=True)
        for place, (part_mean, part_sd, values) in enumerate(parts):
            by_mean, by_spread, by_sample = (flats[place + k * count] for k in range(3))
            _add(part_mean, by_mean, by_sample)
            noise = weights.noises[place]
            if weights.noise is not None:
                _add(part_sd, by_spread, by_sample)
                part_sd.mul_(noise)
                continue
            _add(part_sd, by_sample)
            if by_sample is not None:
                part_sd.mul_(noise)
            if by_spread is not None:
                part_sd.addcmul_(by_spread, values, value=2)
        return to_mean, to_sd, None


def _add(out: Tensor, *terms: Tensor | None) -> None:
    """Set `out` to the sum of the terms there are."""
    given = [term for term in terms if term is not None]
    if not given:
        out.zero_()
    elif len(given) == 1:
        out.copy_(given[0])
    else:
        torch.add(*given, out=out)
