"""Prediction of real targets with Student-t noise: a mixture over the weight samples.

    p(y) = 1/S sum_s t_v((y - m_s) / c_s) / c_s,    c_s = v_s sqrt(1 - 2 / v)    of the noise's sd v_s, v = df

    cdf        F(y) = 1/S sum_s T_v((y - m_s) / c_s)
    quantile   y with F(y) = q, by Newton's steps within a bracket, and by bisection where they do not arrive
    entropy    1/S sum_s E_s[-log p(y)], E_s by Gauss-Legendre over the probability: to about 1e-3 nats
    crps       E|Y - y| - E|Y - Y'| / 2,    E|Y - Y'| / 2 = integral F (1 - F)                                  [1]
               E|t - a| = a (2 T_v(a) - 1) + 2 t_v(a) (v + a^2) / (v - 1);  the integral by Gauss-Legendre, in the tails
               over r in (0, 1) with y = end +- sd (1 / (1 - r)^2 - 1): to 1e-4 of it, to 5e-3 where the noise is
               less than a tenth of the spread

Limits: df = inf is Gaussian, of some targets or of all.

[1] Gneiting, Raftery, Strictly proper scoring rules, prediction, and estimation, 2007, eq. 21 (sign turned).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import ArrayLike
from scipy import special
from torch import Tensor

from posterity.core.errors import UsageError
from posterity.core.precision import wide
from posterity.likelihoods.mixture import HALF_LOG_2PI
from posterity.likelihoods.prediction import Array, as_array
from posterity.likelihoods.real import RealPrediction

NEWTON = 16  # steps
HALVINGS = 64  # more than the bits of a double
NODES = 256  # of the entropy
REACH = 4.0  # scales around all locations, where the integral of the crps has its middle
MIDDLE, TAIL = 64, 8  # its nodes there, and in either tail


@dataclass(frozen=True, eq=False, repr=False)
class StudentPrediction(RealPrediction):
    """Real targets whose noise is Student-t with `df` (n, k) degrees of freedom; `noise_sd` is its sd."""

    table = "student"

    df: Tensor | None = None

    @property
    def entropy(self) -> Tensor:
        """Differential entropy (n, k) of each target by itself, in nats."""
        mean, scale, df = self._parts()
        total = torch.zeros_like(df)
        for u, share in zip(*_legendre(NODES), strict=True):
            z = _inverse(df, u)
            for m, s in zip(mean, scale, strict=True):
                total -= share * self._log_mixture(m + s * z)
        return (total / len(mean)).to(self.mean.dtype)

    def log_prob(self, y: ArrayLike | Tensor) -> Tensor:
        """Log density of the predictive at `y` (n, k), jointly of the k targets: (n,)."""
        logs = self._logs(self._targets(y).double()).sum(-1)
        return (logs.logsumexp(0) - math.log(len(logs))).to(self.mean.dtype)

    def expected_log_prob(self, y: ArrayLike | Tensor) -> Tensor:
        """Mean over the weights of the log density at `y` (n, k): (n,)."""
        return self._logs(self._targets(y).double()).sum(-1).mean(0).to(self.mean.dtype)

    def cdf(self, y: ArrayLike | Tensor) -> Tensor:
        """The share (n, k) of each target's predictive that lies below `y` (n, k), in double precision."""
        return self._below(self._targets(y).double())

    def crps(self, y: ArrayLike | Tensor) -> Tensor:
        """Continuous ranked probability score (n, k) of each target's predictive at `y` (n, k), in double precision."""
        mean, scale, df = self._parts()
        z = (self._targets(y).double() - mean) / scale
        tail = torch.where(df.isinf(), 1.0, (df + z.square()) / (df - 1))
        distance = scale * (z * (2 * _share(df, z) - 1) + 2 * log_student(z, df).exp() * tail)
        return distance.mean(0) - self._half_apart()

    def quantile(self, q: float | Sequence[float]) -> Tensor:
        """The value (n, k) below which lies the share `q` of a target's predictive; (Q, n, k) for Q of them."""
        if isinstance(q, Sequence):
            return torch.stack([self.quantile(each) for each in q])
        if not 0 < q < 1:
            raise UsageError(f"a quantile's share must be between 0 and 1, such as 0.5 for the median, not {q}")
        mean, scale, df = self._parts()
        each = mean + scale * _inverse(df, q)
        low, high, at = each.amin(0), each.amax(0), each.mean(0)
        for step in range(HALVINGS if len(mean) > 1 else 0):
            share, before = self._below(at), at
            low, high = torch.where(share < q, at, low), torch.where(share < q, high, at)
            at = low + 0.5 * (high - low)
            if step < NEWTON:
                nearer = before + (q - share) / self._log_mixture(before).exp()
                at = torch.where((nearer >= low) & (nearer <= high), nearer, at)
            if ((at - before).abs() <= 1e-12 * scale.amin(0)).all():
                break
        return at.to(self.mean.dtype)

    def rescaled(self, mean: ArrayLike | Tensor, sd: ArrayLike | Tensor) -> StudentPrediction:
        """The predictive of y = mean + sd z, where this is that of z."""
        made = super().rescaled(mean, sd)
        parts = made.mean, made.aleatoric_sd, made.epistemic_sd, made.samples, made.noise_sd
        return StudentPrediction(*parts, df=self.df)

    def to_numpy(self) -> dict[str, Array]:
        """Everything as arrays by name, samples and degrees of freedom included."""
        assert self.df is not None
        return {**super().to_numpy(), "df": as_array(self.df)}

    def _parts(self) -> tuple[Tensor, Tensor, Tensor]:
        """Locations and scales (S, n, k) and degrees of freedom (n, k), in double precision."""
        assert self.samples is not None
        assert self.noise_sd is not None
        assert self.df is not None
        df = self.df.double()
        return self.samples.double(), self.noise_sd.double() * (1 - 2 / df).sqrt(), df

    def _half_apart(self) -> Tensor:
        """E|Y - Y'| / 2 (n, k) of two draws from a target's predictive."""
        mean, scale, _ = self._parts()
        low, high, spread = (mean - REACH * scale).amin(0), (mean + REACH * scale).amax(0), self.sd.double()
        total = torch.zeros_like(spread)
        for point, share in zip(*_legendre(MIDDLE), strict=True):
            below = self._below(low + point * (high - low))
            total += share * (high - low) * below * (1 - below)
        for point, share in zip(*_legendre(TAIL), strict=True):
            out = spread * ((1 - point) ** -2 - 1)
            for end in (low - out, high + out):
                below = self._below(end)
                total += share * 2 * (1 - point) ** -3 * spread * below * (1 - below)
        return total

    def _below(self, y: Tensor) -> Tensor:
        mean, scale, df = self._parts()
        return _share(df, (y - mean) / scale).mean(0)

    def _logs(self, y: Tensor) -> Tensor:
        mean, scale, df = self._parts()
        return log_student((y - mean) / scale, df) - scale.log()

    def _log_mixture(self, y: Tensor) -> Tensor:
        logs = self._logs(y)
        return logs.logsumexp(0) - math.log(len(logs))


def log_student(z: Tensor, df: Tensor) -> Tensor:
    """log t_v(z), the density of scale 1 with v = `df` degrees of freedom; the normal one where they are infinite."""
    heavy = df.isfinite()
    v = torch.where(heavy, wide(df), 1.0)
    # The constant is a small difference of large numbers.
    constant = torch.lgamma(0.5 * (v + 1)) - torch.lgamma(0.5 * v) - 0.5 * (math.pi * v).log()
    student = constant.to(z.dtype) - (0.5 * (v + 1)).to(z.dtype) * torch.log1p(z.square() / v.to(z.dtype))
    return torch.where(heavy, student, -(0.5 * z.square() + HALF_LOG_2PI))


def _legendre(count: int) -> tuple[list[float], list[float]]:
    """Points and weights of a quadrature over (0, 1)."""
    points, shares = np.polynomial.legendre.leggauss(count)
    return (0.5 * (points + 1)).tolist(), (0.5 * shares).tolist()


def _share(df: Tensor, z: Tensor) -> Tensor:
    """T_v(z)."""
    v = df.cpu().numpy()
    heavy = torch.as_tensor(special.stdtr(np.where(np.isinf(v), 1.0, v), z.detach().cpu().numpy())).to(z)
    return torch.where(df.isinf(), torch.special.ndtr(z), heavy)


def _inverse(df: Tensor, q: float) -> Tensor:
    """z with T_v(z) = q."""
    v = df.cpu().numpy()
    found = np.where(np.isinf(v), special.ndtri(q), special.stdtrit(np.where(np.isinf(v), 1.0, v), q))
    return torch.as_tensor(found).to(df)
