"""Multi-label: K yes-or-no answers for each datum, independent given the weights, from K logits.

    log P(y | z) = sum_k [ y_k log sigmoid(z_k) + (1 - y_k) log sigmoid(-z_k) ]

Under the predictive they are not independent: P(y) = mean_s prod_k P(y_k | z_sk).
Uncertainty is by label, in nats: total H[mean_s p] = aleatoric mean_s H[p_s] + epistemic.
Limits: K = 1 is the Bernoulli.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from numpy.typing import ArrayLike
from torch import Tensor
from torch.nn import functional as F

from posterity.core.errors import DataError, UsageError
from posterity.likelihoods.likelihood import Likelihood
from posterity.likelihoods.prediction import Prediction

THRESHOLD = 0.5  # of the probability at which a label is said to be there


class MultiLabel(Likelihood):
    """K answers 0 or 1 (n, K), from K logits."""

    kind = "multi_label"
    task = "regression"

    def log_prob(self, outputs: Tensor, y: Tensor) -> Tensor:
        """(S, n) for logits (S, n, K) and answers (n, K)."""
        targets = self._alike(outputs, y).expand_as(outputs)
        return -F.binary_cross_entropy_with_logits(outputs, targets, reduction="none").sum(-1)

    def predict(self, outputs: Tensor) -> MultiLabelPrediction:
        """Probabilities of each label, and their uncertainty."""
        probs = outputs.sigmoid()
        mean, aleatoric = probs.mean(0), _entropy(probs).mean(0)
        return MultiLabelPrediction(mean, aleatoric, (_entropy(mean) - aleatoric).clamp_min(0), probs)

    def check_targets(self, y: Tensor) -> None:
        """0 or 1."""
        wrong = y[(y != 0) & (y != 1)]
        if len(wrong):
            raise DataError(f"multi-label targets are 0 or 1 for each of the labels, not {wrong[0].item():g}")

    def num_outputs(self, num_targets: int) -> int:
        """One logit a label."""
        return num_targets


@dataclass(frozen=True, eq=False, repr=False)
class MultiLabelPrediction(Prediction):
    """Probabilities `mean` (n, K), `samples` (S, n, K) by weight sample; `aleatoric`, `epistemic` (n, K) in nats."""

    kind = "labels"
    table = "labels"

    aleatoric: Tensor
    epistemic: Tensor
    samples: Tensor

    @property
    def entropy(self) -> Tensor:
        """Entropy (n, K) of each label's probability, in nats: the total."""
        return self.total

    @property
    def label(self) -> Tensor:
        """Whether each label is there (n, K): 1 where it is more probable than not."""
        return (self.mean > THRESHOLD).long()

    @property
    def confidence(self) -> Tensor:
        """The probability (n, K) of what `label` says."""
        return torch.maximum(self.mean, 1 - self.mean)

    def log_prob(self, y: ArrayLike | Tensor) -> Tensor:
        """Log probability of the answers `y` (n, K), jointly: (n,)."""
        logs = self._logs(y)
        return logs.logsumexp(0) - math.log(len(logs))

    def expected_log_prob(self, y: ArrayLike | Tensor) -> Tensor:
        """Mean over the weights of the log probability of `y` (n, K): (n,)."""
        return self._logs(y).mean(0)

    def columns(self) -> dict[str, Tensor]:
        """Probabilities, labels and uncertainties."""
        names = ("label", "mean", "aleatoric", "epistemic", "total")
        return {name: getattr(self, name) for name in names}

    def _logs(self, y: ArrayLike | Tensor) -> Tensor:
        targets = torch.as_tensor(y, device=self.mean.device)
        if targets.shape != self.mean.shape:
            raise UsageError(f"labels must have shape {tuple(self.mean.shape)}, not {tuple(targets.shape)}")
        tiny = torch.finfo(self.mean.dtype).tiny
        return torch.where(targets.bool(), self.samples, 1 - self.samples).clamp_min(tiny).log().sum(-1)

    def _summary(self) -> str:
        there = self.label.double().sum(-1).mean().item()
        aleatoric, epistemic = self.aleatoric.mean().item(), self.epistemic.mean().item()
        return (
            f"{self.mean.shape[-1]} labels, {there:.3g} of them there on average\n"
            f"  nats on average: aleatoric {aleatoric:.3g}, epistemic {epistemic:.3g}"
        )


def _entropy(probs: Tensor) -> Tensor:
    """Of yes or no, in nats."""
    return -torch.xlogy(probs, probs) - torch.xlogy(1 - probs, 1 - probs)
