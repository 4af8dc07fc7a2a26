"""Student-t observations: a regression that outliers do not pull away.

    log P(y | z) = sum_j [ log Gamma((v + 1) / 2) - log Gamma(v / 2) - log(v pi) / 2 - log s
                           - (v + 1) / 2 log(1 + (y_j - z_j)^2 / (v s^2)) ],    v = df > 2

The scale s is given, or learnt: softplus(rho), one for each target, a parameter that an optimiser moves; a training
starts it at the spread of the targets. The noise's variance is s^2 v / (v - 2).
The predictive is a mixture over the weight samples (likelihoods.student_prediction).
Limits: df -> inf is Gaussian noise of sd s.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributions import StudentT
from torch.nn import functional as F

from posterity.core.errors import UsageError
from posterity.core.scale import rho_of
from posterity.likelihoods.likelihood import Likelihood
from posterity.likelihoods.student_prediction import StudentPrediction


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
