"""Flipout: one weight sample for the batch, whose perturbation has other signs for each example [1].

    out = a * mean + b_mean + ((a o s) * (sd o eps) + b_sd o b_eps) o r

    eps    standard normal, one for each weight, shared by the batch
    s, r   random signs for each example: s for its input features or channels, r for its output's

As sd o eps is symmetric about 0 and independent between weights, each example's weights, mean + sd o eps o (r s^T),
are distributed as q's: the expected loss is that of `sample`, for convolutions, too. Between two examples they are
uncorrelated, so that the gradient's variance falls with the size of the batch. Linear maps over further leading axes
(positions of a sequence) draw signs for each position: there, as in `local`, the correlation is dropped.

Limits: sd = 0 gives the mean; r = s = 1 gives `sample`.

[1] Wen, Vicol, Ba, Tran, Grosse, Flipout: efficient pseudo-independent weight perturbations on mini-batches, 2018.
"""

from __future__ import annotations

from torch import Tensor

from posterity.core.randomness import NoiseSource
from posterity.estimators.interception import LinearMap, Moments, Rule


class Flipout(Rule):
    """Mean and perturbation by two maps, signs on the input and the output of the second."""

    perturbs = True

    def apply(
        self, linear: LinearMap, a: Tensor, weight: Moments, bias: Moments | Tensor | None, noise: NoiseSource
    ) -> Tensor:
        """The random output of `linear` for the input `a`."""
        shift, jolt = (bias.mean, bias.spread) if isinstance(bias, Moments) else (bias, None)
        mean = linear(a, weight.mean, shift)
        axis, ones = -1 - linear.positions, [1] * linear.positions
        into = noise.signs((*linear.examples(a), a.shape[axis], *ones), a)
        out_of = noise.signs((*linear.examples(a), mean.shape[axis], *ones), mean)
        return mean.addcmul_(linear(a * into, weight.spread, jolt), out_of)
