"""Student-t observations: a regression that outliers do not pull away.

    log P(y | z) = sum_j [ log Gamma((v + 1) / 2) - log Gamma(v / 2) - log(v pi) / 2 - log s
                           - (v + 1) / 2 log(1 + (y_j - z_j)^2 / (v s^2)) ],    v = df > 2

The scale s is given, or learnt: softplus(rho), one for each target, a parameter that an optimiser moves; a training
starts it at the spread of the targets. The noise's variance is s^2 v / (v - 2).
The predictive is a mixture over the weight samples:
    quantile   by bisection of F(y) = 1/S sum_s T_v((y - z_s) / s)
    entropy    1/S sum_s E_s[-log p(y)], E_s by Gauss-Legendre over the probability: to about 1e-3 nats
Limits: df -> inf is Gaussian noise of sd s.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from scipy import special
from torch import Tensor, nn
from torch.distributions import StudentT
from torch.nn import functional as F

from posterity.core.errors import UsageError
from posterity.core.scale import rho_of
from posterity.likelihoods.likelihood import Likelihood
from posterity.likelihoods.real import RealPrediction

HALVINGS = 64
NODES = 256


class StudentTNoise(Likelihood):
    """Targets (n, k) with Student-t noise of `df` degrees of freedom; `scale` a positive number or "learnt"."""

    kind = "student_t_noise"
    task = "regression"
    of_reals = True

    def __init__(self, df: float = 4.0, *, scale: float | str = "learnt", num_targets: int = 1) -> None:
        super().__init__()
        if not 2 < df < math.inf:
            raise UsageError(f"df must be above 2, where the noise has a variance, and finite, not {df}")
        if scale != "learnt" and (isinstance(scale, str) or not 0 < scale < math.inf):
            raise UsageError(f"the scale is a positive number or 'learnt', not {scale!r}")
        self.df, self.given, self.num_targets = float(df), scale, num_targets
        if scale == "learnt":
            self.rho = nn.Parameter(rho_of(torch.ones(num_targets)))

    def scale(self, outputs: Tensor) -> Tensor:
        """(k,), or one number for all."""
        return F.softplus(self.rho) if self.given == "learnt" else outputs.new_tensor(self.given)

    def log_prob(self, outputs: Tensor, y: Tensor) -> Tensor:
        """(S, n) for outputs and targets (S, n, k) and (n, k)."""
        noise = StudentT(self.df, outputs, self.scale(outputs), validate_args=False)
        logs: Tensor = noise.log_prob(self._alike(outputs, y))
        return logs.sum(-1)

    def predict(self, outputs: Tensor) -> StudentPrediction:
        """Mean and standard deviations by source."""
        scale = self.scale(outputs).detach().expand_as(outputs[0])
        sd = scale * math.sqrt(self.df / (self.df - 2))
        df = torch.full_like(sd, self.df)
        spread = outputs.std(0, correction=0)
        return StudentPrediction(outputs.mean(0), sd, spread, outputs, sd.expand_as(outputs).contiguous(), df)

    @torch.no_grad()
    def begin(self, y: Tensor) -> None:
        """A learnt scale starts at the spread of the targets; one that was trained stays as it is."""
        if self.given != "learnt":
            return
        spread, start = y.std(0, correction=0), rho_of(torch.ones_like(self.rho))
        if bool((self.rho == start).all() and (spread > 0).all()):
            self.rho.copy_(rho_of(spread.to(self.rho)))

    def learnt(self) -> dict[str, Any]:
        """The scale: a number, or one for each of several targets."""
        if self.given != "learnt":
            return {}
        found = F.softplus(self.rho.detach()).tolist()
        return {"scale": found[0] if len(found) == 1 else found}

    def num_outputs(self, num_targets: int) -> int:
        """A location for each target."""
        return num_targets

    def options(self) -> dict[str, Any]:
        """Degrees of freedom, scale and number of targets."""
        return {"df": self.df, "scale": self.given, "num_targets": self.num_targets}


@dataclass(frozen=True, eq=False, repr=False)
class StudentPrediction(RealPrediction):
    """Real targets whose noise is Student-t with `df` (n, k) degrees of freedom; `noise_sd` is its sd."""

    df: Tensor | None = None

    @property
    def entropy(self) -> Tensor:
        """Differential entropy (n, k) of each target by itself, in nats."""
        points, shares = np.polynomial.legendre.leggauss(NODES)
        mean, scale, df = self._parts()
        total = torch.zeros_like(df)
        for u, share in zip(0.5 * (points + 1), 0.5 * shares, strict=True):
            z = torch.as_tensor(special.stdtrit(df.cpu().numpy(), u)).to(df)
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

    def quantile(self, q: float | Sequence[float]) -> Tensor:
        """The value (n, k) below which lies the share `q` of a target's predictive; (Q, n, k) for Q of them."""
        if isinstance(q, Sequence):
            return torch.stack([self.quantile(each) for each in q])
        if not 0 < q < 1:
            raise UsageError(f"a quantile's share must be between 0 and 1, such as 0.5 for the median, not {q}")
        mean, scale, df = self._parts()
        each = mean + scale * torch.as_tensor(special.stdtrit(df.cpu().numpy(), q)).to(df)
        low, high = each.amin(0), each.amax(0)
        for _ in range(HALVINGS if len(mean) > 1 else 0):
            middle = low + 0.5 * (high - low)
            z = ((middle - mean) / scale).cpu().numpy()
            below = torch.as_tensor(special.stdtr(df.cpu().numpy(), z)).to(df).mean(0) < q
            low, high = torch.where(below, middle, low), torch.where(below, high, middle)
        return (low + 0.5 * (high - low)).to(self.mean.dtype)

    def rescaled(self, mean: ArrayLike | Tensor, sd: ArrayLike | Tensor) -> StudentPrediction:
        """The predictive of y = mean + sd z, where this is that of z."""
        made = super().rescaled(mean, sd)
        parts = made.mean, made.aleatoric_sd, made.epistemic_sd, made.samples, made.noise_sd
        return StudentPrediction(*parts, df=self.df)

    def _parts(self) -> tuple[Tensor, Tensor, Tensor]:
        """Locations and scales (S, n, k) and degrees of freedom (n, k), in double precision."""
        assert self.samples is not None
        assert self.noise_sd is not None
        assert self.df is not None
        df = self.df.double()
        return self.samples.double(), self.noise_sd.double() / (df / (df - 2)).sqrt(), df

    def _logs(self, y: Tensor) -> Tensor:
        mean, scale, df = self._parts()
        logs: Tensor = StudentT(df, mean, scale, validate_args=False).log_prob(y)
        return logs

    def _log_mixture(self, y: Tensor) -> Tensor:
        logs = self._logs(y)
        return logs.logsumexp(0) - math.log(len(logs))
