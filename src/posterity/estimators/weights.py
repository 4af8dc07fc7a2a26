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

Parts = Sequence[Tensor]  # flat (size,), a part for each weight tensor


class PassWeights:
    """Means, spreads and samples of one pass, each a tuple in the layout's order, from flat parts (size,).

    With `noise` (N,) the spread is the perturbation; without, the variance, and a sample draws noise when filled.
    """

    def __init__(self, means: Parts, sds: Parts, layout: Layout, noise: Tensor | None = None) -> None:
        count = len(layout.sizes)
        self.entries, self.perturbs = layout.entries, noise is not None
        self.filled = [False] * count
        self.noises: list[Tensor | None] = [None] * count if noise is None else list(noise.split(layout.sizes))
        self._values = [(mean.detach(), sd.detach()) for mean, sd in zip(means, sds, strict=True)]
        tensors = _Tensors.apply(self, *means, *sds)  # type: ignore[no-untyped-call]
        self.means, self.spreads, self.samples = tensors[:count], tensors[count : 2 * count], tensors[2 * count :]

    def fill(self, place: int, source: NoiseSource) -> None:
        """Make the sample at `place` what it stands for."""
        if self.filled[place]:
            return
        self.filled[place] = True
        mean, sd = self._values[place]
        noise = self.noises[place]
        if noise is None:
            noise = self.noises[place] = source.normal((len(mean),), mean)
        with torch.no_grad():
            self.samples[place].data = self.entries[place].view(torch.addcmul(mean, sd, noise))


class _Tensors(torch.autograd.Function):
    """Means and sds -> means, spreads and unfilled samples, by weight."""

    @staticmethod
    def forward(ctx: Any, weights: PassWeights, *inputs: Tensor) -> tuple[Tensor, ...]:
        count = len(weights.entries)
        means, sds = inputs[:count], inputs[count:]
        ctx.save_for_backward(*sds)
        ctx.set_materialize_grads(False)
        # Not the weights themselves: they hold what is returned here, and so would be held by it for good.
        ctx.entries, ctx.noises, ctx.perturbs = weights.entries, weights.noises, weights.perturbs
        spreads = [sd.square() if n is None else sd * n for sd, n in zip(sds, weights.noises, strict=True)]
        nothing = means[0].new_tensor(math.nan)  # takes no memory, however often it is repeated
        shaped = [e.view(v.detach()) for v, e in zip((*means, *spreads), 2 * weights.entries, strict=True)]
        return (*shaped, *(nothing.expand(entry.shape) for entry in weights.entries))

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        count = len(ctx.entries)
        flats = [None if g is None else e.flat(g) for g, e in zip(grads, 3 * ctx.entries, strict=True)]
        to_means, to_sds = [], []
        for place, sd in enumerate(ctx.saved_tensors):
            by_mean, by_spread, by_sample = flats[place::count]
            noise = ctx.noises[place]
            to_means.append(_sum(by_mean, by_sample))
            if ctx.perturbs:
                by_noise, to_sd = _sum(by_spread, by_sample), None
            else:
                by_noise = by_sample
                to_sd = None if by_spread is None else torch.addcmul(sd.new_zeros(1), by_spread, sd, value=2)
            to_sds.append(_sum(to_sd, None if by_noise is None or noise is None else by_noise * noise))
        return None, *to_means, *to_sds


def _sum(*terms: Tensor | None) -> Tensor | None:
    """The sum of the terms there are."""
    given = [term for term in terms if term is not None]
    return None if not given else given[0] if len(given) == 1 else given[0] + given[1]
