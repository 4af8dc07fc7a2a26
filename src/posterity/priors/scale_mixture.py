"""Scale mixture of two Gaussians with independent weights: a slab and a spike (Blundell et al. 2015).

    log prior(w) = sum_i log[ pi N(w_i; mean_i, sd1_i^2) + (1 - pi) N(w_i; mean_i, sd2_i^2) ]

Expectations under q: with `wide` and `narrow` the two components including their shares,
    log prior = log wide + softplus(log narrow - log wide),    log narrow - log wide = c - a (w - mean)^2,    a > 0
The first term is Gaussian; the second vanishes outside |w - mean| < L = sqrt((c + 40) / a). It is integrated by
Gauss-Legendre over the part of that interval where q has mass, so that a spike far narrower than q, or a q far
narrower than the spike, is resolved alike (Gauss-Hermite nodes would step over the spike).

Limits: pi = 1 gives N(mean, sd1^2); sd1 = sd2 gives that Gaussian for any pi.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from posterity.core.errors import UsageError
from posterity.core.layout import Layout
from posterity.priors.expectations import in_chunks, legendre
from posterity.priors.gaussian import HALF_LOG_2PI
from posterity.priors.prior import Prior
from posterity.priors.scales import DEFAULT_SCALE, centre_of, scale_rule, sd_of

LEGENDRE = {torch.float64: 96}  # nodes: error below 1e-8, a spike a thousand times narrower included
FEW = 48  # nodes in lower precision: error below 1e-4
NEGLIGIBLE = 40.0  # softplus(-40) = 4e-18
SPIKE = math.exp(-6)
Q_REACH = 8.5  # standard deviations of q: 2e-17 of its mass is outside


@dataclass(frozen=True)
class ScaleMixture:
    """What a user asks for: with probability `pi` N(mean, sd1^2), otherwise N(mean, sd2^2).

    The scales are numbers or rules; the defaults are a slab by Kaiming's rule and one of the paper's spikes.
    """

    pi: float = 0.5
    sd1: float | str | Callable[[int, int], float] = DEFAULT_SCALE
    sd2: float | str | Callable[[int, int], float] = SPIKE
    mean: float | str | Mapping[str, Tensor] = 0.0

    def __post_init__(self) -> None:
        scale_rule(self.sd1)
        scale_rule(self.sd2)
        _check_pi(self.pi)

    def bind(self, layout: Layout, weights: Tensor) -> FlatMixture:
        """The prior over the flat vector; `weights` (N,) are the network's present ones."""
        sd1, sd2 = (sd_of(sd, layout, weights) for sd in (self.sd1, self.sd2))
        return FlatMixture(sd1, sd2, centre_of(self.mean, layout, weights), pi=self.pi)


def mixture(
    *,
    scale: float | str | Callable[[int, int], float] = ScaleMixture.sd1,
    mean: float | str = ScaleMixture.mean,  # type: ignore[assignment]
    pi: float = ScaleMixture.pi,
    sd2: float | str | None = None,
    ratio: float | None = None,
) -> ScaleMixture:
    """By its wide part, the slab, which has `scale` and share `pi`.

    The spike has `sd2` (a number or a rule), or `scale` / `ratio` in each layer, or by default what ScaleMixture gives.
    """
    if sd2 is not None and ratio is not None:
        raise UsageError(f"the mixture's spike has sd2 ({sd2}) or a ratio to the slab ({ratio}), not both")
    narrow: float | str | Callable[[int, int], float] = ScaleMixture.sd2 if sd2 is None else sd2
    if ratio is not None:
        if not (math.isfinite(ratio) and ratio >= 1):
            raise UsageError(f"the mixture's ratio of slab to spike is a number of at least 1, not {ratio}")
        wide = scale_rule(scale)
        narrow = lambda n_in, n_out: wide(n_in, n_out) / ratio  # noqa: E731
    return ScaleMixture(pi, scale, narrow, mean)


class FlatMixture(Prior):
    """Independent mixtures of two Gaussians over the flat vector."""

    kind = "mixture"
    by_weight = ("centre", "sd1", "sd2")
    centre: Tensor | None
    sd1: Tensor
    sd2: Tensor

    def __init__(self, sd1: Tensor, sd2: Tensor, mean: Tensor | None = None, *, pi: float = 0.5) -> None:
        super().__init__()
        _check_pi(pi)
        self.register_buffer("centre", mean)
        self.register_buffer("sd1", sd1.clone())
        self.register_buffer("sd2", sd2.clone())
        self.pi = pi

    @property
    def mean(self) -> Tensor:
        """Mean of each weight (N,), or (1,) where it is zero for all."""
        return self.sd1.new_zeros(1) if self.centre is None else self.centre

    @property
    def sd(self) -> Tensor:
        """sqrt(pi sd1^2 + (1 - pi) sd2^2) (N,)."""
        return (self.pi * self.sd1.square() + (1 - self.pi) * self.sd2.square()).sqrt()

    def log_density_by_weight(self, weights: Tensor) -> Tensor:
        """Each weight's share (..., N) of log prior(w)."""
        square = (weights - self.mean).square()
        return torch.logaddexp(*(_log_part(square, sd, share) for sd, share in self._components()))

    def expected_log_density(self, mean: Tensor, sd: Tensor) -> Tensor:
        """Each weight's share (N,) of E log prior(w), by the quadrature of the header."""

        def chunk(mean: Tensor, sd: Tensor, where: slice) -> Tensor:
            return self.restricted(where)._expected(mean, sd)

        return in_chunks(chunk, mean, sd, LEGENDRE.get(mean.dtype, FEW))

    def sample(self, noise: Tensor) -> Tensor:
        """Weights (S, N) for standard normal `noise` (S, N): the quantile of Phi(noise), by bisection.

        It lies between noise * sd1 and noise * sd2; on the nearer tail, so that no digits are lost.
        """
        size = noise.abs()
        low, high = size * torch.minimum(self.sd1, self.sd2), size * torch.maximum(self.sd1, self.sd2)
        wanted = torch.special.log_ndtr(-size)
        shares = [math.log(share) if share else -math.inf for _, share in self._components()]
        for _ in range(30 if noise.dtype == torch.float32 else 60):
            middle = 0.5 * (low + high)
            parts = (
                s + torch.special.log_ndtr(-middle / sd) for s, sd in zip(shares, (self.sd1, self.sd2), strict=True)
            )
            beyond = torch.logaddexp(*parts) > wanted
            low, high = torch.where(beyond, middle, low), torch.where(beyond, high, middle)
        return self.mean + noise.sign() * 0.5 * (low + high)

    @classmethod
    def empty(cls, num_weights: int, *, centred: bool = False, pi: float = 0.5, **options: Any) -> FlatMixture:
        """Of unit scales, to be loaded."""
        centre = torch.zeros(num_weights) if centred else None
        return cls(torch.ones(num_weights), torch.ones(num_weights), centre, pi=pi)

    def options(self) -> dict[str, Any]:
        """The share of the first component, and whether a mean is stored."""
        return {"centred": self.centre is not None, "pi": self.pi}

    def _components(self) -> tuple[tuple[Tensor, float], tuple[Tensor, float]]:
        return (self.sd1, self.pi), (self.sd2, 1 - self.pi)

    def _expected(self, mean: Tensor, sd: Tensor) -> Tensor:
        shift = mean - self.mean
        if self.pi == 1:
            return -self.sd1.log() - HALF_LOG_2PI - 0.5 * (shift.square() + sd.square()) / self.sd1.square()
        first = self.sd1 >= self.sd2
        wide_sd, narrow_sd = torch.where(first, self.sd1, self.sd2), torch.where(first, self.sd2, self.sd1)
        shares = [math.log(share) for _, share in self._components()]
        log_wide = torch.where(first, shares[0], shares[1]).to(mean)
        log_narrow = torch.where(first, shares[1], shares[0]).to(mean)
        outer = log_wide - wide_sd.log() - HALF_LOG_2PI - 0.5 * (shift.square() + sd.square()) / wide_sd.square()
        lead = log_narrow - log_wide + (wide_sd / narrow_sd).log()
        bend = 0.5 * (narrow_sd.square().reciprocal() - wide_sd.square().reciprocal())
        reach = ((lead + NEGLIGIBLE).clamp_min(0) / bend.clamp_min(torch.finfo(mean.dtype).tiny)).sqrt()
        with torch.no_grad():  # the nodes stand still: only q's density at them changes
            low = torch.maximum(-reach, shift - Q_REACH * sd)
            high = torch.maximum(torch.minimum(reach, shift + Q_REACH * sd), low)
            nodes, weights = legendre(LEGENDRE.get(mean.dtype, FEW), mean)
            half = 0.5 * (high - low)
            at = 0.5 * (low + high) + half * nodes
            gain = half * weights * F.softplus(lead - bend * at.square())
        density = (-0.5 * ((at - shift) / sd).square() - HALF_LOG_2PI).exp() / sd
        return outer + (gain * density).sum(0)


def _check_pi(pi: float) -> None:
    if not 0 < pi <= 1:
        raise UsageError(f"the mixture's pi is a probability above 0, not {pi}")


def _log_part(square: Tensor, sd: Tensor, share: float) -> Tensor:
    log_share = math.log(share) if share else -math.inf
    return log_share - 0.5 * square / sd.square() - sd.log() - HALF_LOG_2PI
