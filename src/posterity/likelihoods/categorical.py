"""Categorical: one of K classes, from K logits; and Bernoulli: yes or no, from one.

log P(y = k | z) = z_k - logsumexp(z)
log P(y | z)     = y log sigmoid(z) + (1 - y) log sigmoid(-z)
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from posterity.core.errors import UsageError
from posterity.likelihoods.classes import ClassPrediction, predict_classes
from posterity.likelihoods.likelihood import Likelihood

IGNORE_NOTHING = -(2**62)


class Categorical(Likelihood):
    """One of K classes, from K logits."""

    kind = "categorical"

    def log_prob(self, outputs: Tensor, y: Tensor) -> Tensor:
        """(S, n) for logits (S, n, K) and labels (n,)."""
        return -self._cross_entropy(outputs, y, "none").view(outputs.shape[:2])

    def nll(self, outputs: Tensor, y: Tensor, weight: Tensor | None = None) -> Tensor:
        """Mean over weight samples and data of -log P(y | outputs), times `weight` (n,)."""
        if weight is not None:
            return super().nll(outputs, y, weight)
        return self._cross_entropy(outputs, y, "mean")

    def _cross_entropy(self, outputs: Tensor, y: Tensor, reduction: str) -> Tensor:
        if y.dim() != 1 or outputs.shape[1] != y.shape[0]:
            raise UsageError(f"categorical targets must be labels of shape ({outputs.shape[1]},), not {tuple(y.shape)}")
        labels = y if len(outputs) == 1 else y.repeat(len(outputs))
        # No label is ignored: PyTorch would silently pass over -100.
        return F.cross_entropy(outputs.flatten(0, 1), labels, reduction=reduction, ignore_index=IGNORE_NOTHING)

    def predict(self, outputs: Tensor) -> ClassPrediction:
        """Class probabilities and their uncertainty."""
        return predict_classes(outputs.softmax(-1))

    def num_outputs(self, num_targets: int) -> int:
        """One logit a class."""
        return num_targets


class Bernoulli(Likelihood):
    """Yes or no, from one logit; predictions have the two columns (no, yes)."""

    kind = "bernoulli"

    def log_prob(self, outputs: Tensor, y: Tensor) -> Tensor:
        """(S, n) for logits (S, n, 1) and targets 0 or 1 (n,)."""
        if outputs.shape[-1] != 1 or y.dim() != 1 or outputs.shape[1] != y.shape[0]:
            raise UsageError(
                f"a Bernoulli likelihood takes one logit and targets (n,), not outputs "
                f"{tuple(outputs.shape[1:])} and targets {tuple(y.shape)}"
            )
        logits = outputs.squeeze(-1)
        targets = y.to(logits.dtype).expand_as(logits)
        return -F.binary_cross_entropy_with_logits(logits, targets, reduction="none")

    def predict(self, outputs: Tensor) -> ClassPrediction:
        """Probabilities (n, 2) of no and yes, and their uncertainty."""
        return predict_classes(torch.cat([torch.sigmoid(-outputs), torch.sigmoid(outputs)], -1))

    def num_outputs(self, num_targets: int) -> int:
        """Always one."""
        return 1
