"""Ordinal: one of K ordered classes, from one number z and K - 1 cut points: the cumulative logit [1].

    P(y <= k | z) = sigmoid(c_k - z),    c_1 < ... < c_{K-1}
    log P(y = k | z) = log sigmoid(b) + log sigmoid(-a) + log(1 - e^{a - b}),   a = c_{k-1} - z,  b = c_k - z

with c_0 = -inf and c_K = inf. The cut points are given, or learnt: the first free, the steps softplus(rho).
Limits: K = 2 with cut point 0 is the Bernoulli; z -> inf makes the last class certain.

[1] McCullagh, Regression models for ordinal data, 1980.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from posterity.core.errors import DataError, UsageError
from posterity.core.scale import rho_of
from posterity.likelihoods.classes import ClassPrediction, predict_classes
from posterity.likelihoods.likelihood import Likelihood


class Ordinal(Likelihood):
    """One of `num_classes` ordered classes, from one output; `cuts` are "learnt", or numbers that grow."""

    kind = "ordinal"
    task = "classification"
    cut_points: Tensor

    def __init__(self, num_classes: int, *, cuts: str | Sequence[float] = "learnt") -> None:
        super().__init__()
        if num_classes < 2:
            raise UsageError(f"an order needs at least 2 classes, not {num_classes}")
        self.num_classes = num_classes
        self.fixed = not isinstance(cuts, str)
        if isinstance(cuts, str):
            if cuts != "learnt":
                raise UsageError(f"cuts are 'learnt', or {num_classes - 1} numbers that grow, not '{cuts}'")
            self.first = nn.Parameter(torch.tensor(1 - num_classes / 2))  # one apart, around 0
            self.rho = nn.Parameter(rho_of(torch.ones(num_classes - 2)))
            return
        given = [float(cut) for cut in cuts]
        if len(given) != num_classes - 1 or any(a >= b for a, b in itertools.pairwise(given)):
            raise UsageError(f"{num_classes} classes have {num_classes - 1} cut points that grow, not {given}")
        self.register_buffer("cut_points", torch.tensor(given))

    def cuts(self) -> Tensor:
        """The cut points (K - 1,)."""
        if self.fixed:
            return self.cut_points
        return self.first + F.pad(F.softplus(self.rho).cumsum(0), (1, 0))

    def log_probs(self, outputs: Tensor) -> Tensor:
        """log P(y = k) (S, n, K) for outputs (S, n, 1)."""
        if outputs.shape[-1] != 1:
            raise UsageError(f"an ordinal likelihood takes one output, not {outputs.shape[-1]}")
        cuts = self.cuts()
        logits = cuts - outputs
        below = F.pad(F.logsigmoid(logits), (0, 1))
        above = F.pad(F.logsigmoid(-logits), (1, 0))
        return below + above + F.pad(torch.log(-torch.expm1(-cuts.diff())), (1, 1))

    def log_prob(self, outputs: Tensor, y: Tensor) -> Tensor:
        """(S, n) for outputs (S, n, 1) and labels (n,)."""
        if y.dim() != 1 or outputs.shape[1] != y.shape[0]:
            raise UsageError(f"ordinal targets must be labels of shape ({outputs.shape[1]},), not {tuple(y.shape)}")
        labels = y.long().expand(outputs.shape[:2]).unsqueeze(-1)
        return self.log_probs(outputs).gather(-1, labels).squeeze(-1)

    def predict(self, outputs: Tensor) -> ClassPrediction:
        """Class probabilities and their uncertainty."""
        return predict_classes(self.log_probs(outputs).softmax(-1))  # which sum to 1 but for rounding

    def check_targets(self, y: Tensor) -> None:
        """Labels 0 to K - 1."""
        if len(y) and not 0 <= int(y.min()) <= int(y.max()) < self.num_classes:
            raise DataError(f"this ordinal likelihood has classes 0 to {self.num_classes - 1}, not {int(y.max())}")

    def learnt(self) -> dict[str, Any]:
        """The cut points."""
        return {} if self.fixed else {"cuts": self.cuts().detach().tolist()}

    def num_outputs(self, num_targets: int) -> int:
        """Always one."""
        return 1

    def num_classes_of(self, num_outputs: int) -> int:
        """Those it was made for."""
        return self.num_classes

    def options(self) -> dict[str, Any]:
        """The number of classes, and cut points that were given."""
        return {"num_classes": self.num_classes, "cuts": self.cut_points.tolist() if self.fixed else "learnt"}
