"""Poisson: counts, from the logarithm z of their rate.

    log P(y | z) = y z - e^z - log y!,       mean = variance = e^z

Limits: z -> -inf makes every count but 0 impossible.
"""

from __future__ import annotations

import torch
from torch import Tensor

from posterity.likelihoods.counts import CountPrediction, check_counts, predict_counts
from posterity.likelihoods.likelihood import Likelihood


class Poisson(Likelihood):
    """Counts (n, k), from the logarithms of their rates."""

    kind = "poisson"
    task = "regression"

    def log_prob(self, outputs: Tensor, y: Tensor) -> Tensor:
        """(S, n) for log rates (S, n, k) and counts (n, k)."""
        y = self._alike(outputs, y)
        return (y * outputs - outputs.exp() - torch.lgamma(y + 1)).sum(-1)

    def predict(self, outputs: Tensor) -> CountPrediction:
        """Mean rate and standard deviations by source."""
        rates = outputs.exp()
        return predict_counts(rates, torch.zeros_like(rates))

    def check_targets(self, y: Tensor) -> None:
        """Whole numbers of at least 0."""
        check_counts(y, self.kind)

    def num_outputs(self, num_targets: int) -> int:
        """A log rate for each target."""
        return num_targets
