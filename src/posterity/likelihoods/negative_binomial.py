"""Negative binomial: counts that vary more than a Poisson's, from the logarithm z of their mean.

    r = 1 / dispersion,   m = e^z
    log P(y | z) = log Gamma(y + r) - log Gamma(r) - log y! + r log(r / (r + m)) + y log(m / (r + m))
    mean = m,   variance = m + dispersion m^2

The dispersion is given, or learnt: softplus(rho), one for each target.
Limits: dispersion -> 0 is the Poisson; dispersion 1 is the geometric distribution.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from posterity.core.errors import UsageError
from posterity.core.scale import rho_of
from posterity.likelihoods.counts import CountPrediction, check_counts, log_binomial, predict_counts
from posterity.likelihoods.likelihood import Likelihood

START = 0.5  # of a learnt dispersion


class NegativeBinomial(Likelihood):
    """Counts (n, k), from the logarithms of their means; `dispersion` a positive number or "learnt"."""

    kind = "negative_binomial"
    task = "regression"

    def __init__(self, dispersion: float | str = "learnt", *, num_targets: int = 1) -> None:
        super().__init__()
        if dispersion != "learnt" and (isinstance(dispersion, str) or not 0 < dispersion < math.inf):
            raise UsageError(f"the dispersion is a positive number or 'learnt', not {dispersion!r}; 0 is pt.Poisson()")
        self.given, self.num_targets = dispersion, num_targets
        if dispersion == "learnt":
            self.rho = nn.Parameter(rho_of(torch.full((num_targets,), START)))

    def dispersion(self, outputs: Tensor) -> Tensor:
        """(k,), or one number for all."""
        return F.softplus(self.rho) if self.given == "learnt" else outputs.new_tensor(self.given)

    def log_prob(self, outputs: Tensor, y: Tensor) -> Tensor:
        """(S, n) for log means (S, n, k) and counts (n, k)."""
        return log_binomial(outputs, self.dispersion(outputs), self._alike(outputs, y)).sum(-1)

    def predict(self, outputs: Tensor) -> CountPrediction:
        """Mean and standard deviations by source."""
        return predict_counts(outputs.exp(), self.dispersion(outputs).detach().expand_as(outputs).contiguous())

    def check_targets(self, y: Tensor) -> None:
        """Whole numbers of at least 0."""
        check_counts(y, self.kind)

    def learnt(self) -> dict[str, Any]:
        """The dispersion: a number, or one for each of several targets."""
        if self.given != "learnt":
            return {}
        found = F.softplus(self.rho.detach()).tolist()
        return {"dispersion": found[0] if len(found) == 1 else found}

    def num_outputs(self, num_targets: int) -> int:
        """A log mean for each target."""
        return num_targets

    def options(self) -> dict[str, Any]:
        """The dispersion and the number of targets."""
        return {"dispersion": self.given, "num_targets": self.num_targets}
