"""Prediction of counts: a mixture over the weight samples of Poisson or negative binomial distributions.

    P(y) = 1/S sum_s P(y; m_s, a_s),    variance under s: v_s = m_s + a_s m_s^2,    a = 0 is the Poisson
    variance = aleatoric mean_s v_s + epistemic Var_s[m_s]
    quantile   the least y with F(y) >= q,  F(y) = 1/S sum_s F(y; m_s, a_s), by bisection over the whole numbers
    entropy    -sum_y P(y) log P(y), between the quantiles TAIL and 1 - TAIL; where these are more than POINTS apart
               in equal steps, as if P were smooth

Limits: S = 1 is the Poisson or negative binomial itself; a -> 0 the Poisson.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from numpy.typing import ArrayLike
from scipy import special
from torch import Tensor
from torch.nn import functional as F

from posterity.core.errors import DataError, UsageError
from posterity.likelihoods.prediction import DEFAULT_LEVEL, Prediction

TAIL = 1e-9
POINTS = 1024


@dataclass(frozen=True, eq=False, repr=False)
class CountPrediction(Prediction):
    """`mean`, `aleatoric_sd`, `epistemic_sd` (n, k); `samples` (means) and `dispersion` (S, n, k) by weight sample."""

    kind = "counts"
    table = "counts"
    by_sample = ("samples", "dispersion")

    aleatoric_sd: Tensor
    epistemic_sd: Tensor
    samples: Tensor
    dispersion: Tensor

    @property
    def aleatoric(self) -> Tensor:
        """Mean variance of the counts under a weight sample (n, k)."""
        return self.aleatoric_sd.square()

    @property
    def epistemic(self) -> Tensor:
        """Variance of the means over the weights (n, k)."""
        return self.epistemic_sd.square()

    @property
    def sd(self) -> Tensor:
        """Standard deviation (n, k), from both sources."""
        return torch.hypot(self.aleatoric_sd, self.epistemic_sd)

    @property
    def entropy(self) -> Tensor:
        """Entropy (n, k) of each target by itself, in nats."""
        low, high = self.quantile(TAIL).double(), self.quantile(1 - TAIL).double()
        step = ((high - low) / POINTS).ceil().clamp_min(1)
        total = torch.zeros_like(low)
        for place in range(POINTS + 1):
            y = low + place * step
            log_p = self._log_mean(self._logs(y))
            total -= torch.where(y <= high, step * log_p.exp() * log_p, 0)
        return total.to(self.mean.dtype)

    def log_prob(self, y: ArrayLike | Tensor) -> Tensor:
        """Log probability of the counts `y` (n, k), jointly of the k targets: (n,)."""
        return self._log_mean(self._logs(self._targets(y)).sum(-1)).to(self.mean.dtype)

    def expected_log_prob(self, y: ArrayLike | Tensor) -> Tensor:
        """Mean over the weights of the log probability of `y` (n, k): (n,)."""
        return self._logs(self._targets(y)).sum(-1).mean(0).to(self.mean.dtype)

    def quantile(self, q: float | Sequence[float]) -> Tensor:
        """The least count (n, k) that is not exceeded with probability `q`; (Q, n, k) for Q of them."""
        if isinstance(q, Sequence):
            return torch.stack([self.quantile(each) for each in q])
        if not 0 < q < 1:
            raise UsageError(f"a quantile's share must be between 0 and 1, such as 0.5 for the median, not {q}")
        low = torch.full_like(self.mean, -1, dtype=torch.float64)
        high = torch.ones_like(low)
        while bool((below := self._cdf(high) < q).any()):
            high = torch.where(below, 2 * high, high)
        while bool((high - low > 1).any()):
            middle = ((low + high) / 2).floor()
            below = self._cdf(middle) < q
            low, high = torch.where(below, middle, low), torch.where(below, high, middle)
        return high.to(self.mean.dtype)

    def interval(self, level: float = DEFAULT_LEVEL) -> tuple[Tensor, Tensor]:
        """The central interval, low and high ends (n, k), that holds at least the share `level`."""
        if not 0 < level < 1:
            raise UsageError(f"an interval's level must be between 0 and 1, such as {DEFAULT_LEVEL}, not {level}")
        return self.quantile(0.5 - 0.5 * level), self.quantile(0.5 + 0.5 * level)

    def columns(self) -> dict[str, Tensor]:
        """Mean and standard deviations by source."""
        names = ("mean", "sd", "aleatoric_sd", "epistemic_sd", "aleatoric", "epistemic", "total")
        return {name: getattr(self, name) for name in names}

    def _summary(self) -> str:
        low, high = (value.item() for value in self.mean.aminmax())
        noise, spread = (t.double().square().mean().sqrt().item() for t in (self.aleatoric_sd, self.epistemic_sd))
        return (
            f"mean {low:.3g} to {high:.3g}\n"
            f"  sd by source (root mean square): aleatoric {noise:.3g}, epistemic {spread:.3g}"
        )

    def _logs(self, y: Tensor) -> Tensor:
        """log P(y | w_s) (S, n, k) in double precision."""
        means, dispersion = self.samples.double(), self.dispersion.double()
        poisson = torch.xlogy(y, means) - means - torch.lgamma(y + 1)
        if not bool((dispersion > 0).any()):
            return poisson
        return torch.where(dispersion > 0, log_binomial(means.log(), dispersion, y), poisson)

    def _log_mean(self, logs: Tensor) -> Tensor:
        return logs.logsumexp(0) - math.log(len(logs))

    def _cdf(self, y: Tensor) -> Tensor:
        """F(y) (n, k) for whole numbers y >= 0 (n, k)."""
        means, dispersion = self.samples.double(), self.dispersion.double()
        cdf = torch.special.gammaincc(y + 1, means).expand_as(means)
        if bool((dispersion > 0).any()):
            size = 1 / dispersion
            shares = special.betainc(size.cpu().numpy(), (y + 1).cpu().numpy(), (size / (size + means)).cpu().numpy())
            cdf = torch.where(dispersion > 0, torch.as_tensor(shares).to(means), cdf)
        mixed: Tensor = cdf.mean(0)
        return mixed

    def _targets(self, y: ArrayLike | Tensor) -> Tensor:
        targets = torch.as_tensor(y, device=self.mean.device).double()
        if targets.shape != self.mean.shape:
            raise UsageError(f"counts must have shape {tuple(self.mean.shape)}, not {tuple(targets.shape)}")
        check_counts(targets, "count")
        return targets


def predict_counts(means: Tensor, dispersion: Tensor) -> CountPrediction:
    """The predictive of counts with these `means` and `dispersion` (S, n, k)."""
    variance = (means + dispersion * means.square()).mean(0)
    return CountPrediction(means.mean(0), variance.sqrt(), means.std(0, correction=0), means, dispersion)


def log_binomial(log_mean: Tensor, dispersion: Tensor, y: Tensor) -> Tensor:
    """log P(y) of the negative binomial with this mean and dispersion, see likelihoods.negative_binomial."""
    size, log_size = 1 / dispersion, -dispersion.log()
    ways = torch.lgamma(y + size) - torch.lgamma(size) - torch.lgamma(y + 1)
    return ways - size * F.softplus(log_mean - log_size) - y * F.softplus(log_size - log_mean)


def check_counts(y: Tensor, kind: str) -> None:
    """Whole numbers of at least 0."""
    wrong = y[(y < 0) | (y != y.round())]
    if len(wrong):
        raise DataError(
            f"a {kind} likelihood is of counts, whole numbers of at least 0, not {wrong[0].item():g}: give raw counts, "
            "not standardised ones"
        )
