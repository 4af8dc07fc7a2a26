"""Calibration error: does a prediction of confidence c come true with frequency c?

    conf_i = max_c p_ic,   correct_i = [argmax_c p_ic = y_i]
    B_b    = {i : edge_{b-1} < conf_i <= edge_b}                                  right-closed bins
    ece    = sum_b |B_b| / n * |mean_{B_b} correct - mean_{B_b} conf|             [1]

`ece` takes equal-width bins, edge_b = b / bins. `adaptive_ece` takes equal-mass bins, edge_b = the
confidence of rank ceil(b n / bins): bin sizes differ by at most one when all confidences differ, and
equal confidences always share a bin, so that the value does not depend on the order of the data [2].

Limits: one bin gives |accuracy - confidence| in both; certain and right gives 0, certain and wrong 1;
n bins and distinct confidences give adaptive_ece = mean |correct - conf|.

[1] Guo, Pleiss, Sun, Weinberger, On calibration of modern neural networks, 2017.
[2] Nixon, Dusenberry et al., Measuring calibration in deep learning, 2019, for equal mass.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from posterity.metrics import checks


@dataclass(frozen=True, eq=False)
class Reliability:
    """Accuracy and mean confidence in bins of confidence: a reliability diagram's numbers.

    `edges` (B + 1,) and, for each bin, `counts` (B,), mean `confidence` (B,) and `accuracy` (B,); the
    last two are NaN where a bin is empty.
    """

    edges: Tensor
    counts: Tensor
    confidence: Tensor
    accuracy: Tensor

    @property
    def ece(self) -> float:
        """Gap between accuracy and confidence, averaged over the data: the calibration error."""
        gap = (self.accuracy - self.confidence).abs().nan_to_num(nan=0.0)
        return ((self.counts * gap).sum() / self.counts.sum()).item()


def ece(probs: Tensor, y: Tensor, bins: int = 15) -> float:
    """Expected calibration error of `probs` (n, K) at labels `y` (n,) in equal-width bins."""
    return reliability(probs, y, bins).ece


def adaptive_ece(probs: Tensor, y: Tensor, bins: int = 15) -> float:
    """Expected calibration error of `probs` (n, K) at labels `y` (n,) in equal-mass bins."""
    confidence, correct = _top(probs, y)
    n, bins = len(confidence), checks.positive_int("bins", bins)
    ranks = [-(-b * n // bins) for b in range(1, bins + 1)]
    upper = confidence.sort().values[torch.tensor(ranks, device=confidence.device) - 1]
    return _binned(confidence, correct, torch.cat([upper.new_zeros(1), upper])).ece


def reliability(probs: Tensor, y: Tensor, bins: int = 15) -> Reliability:
    """Accuracy by confidence of `probs` (n, K) at labels `y` (n,) in equal-width bins."""
    confidence, correct = _top(probs, y)
    steps = torch.arange(checks.positive_int("bins", bins) + 1, dtype=torch.float64)
    # In the confidences' own dtype: otherwise 0.6 of float32 lies above the edge 0.6 of float64.
    return _binned(confidence, correct, (steps / bins).to(confidence))


def _top(probs: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Largest probability (n,) and whether it is at the label (n,), as float64."""
    probs, y = checks.classification(probs, y)
    confidence, predicted = probs.max(dim=1)
    return confidence, (predicted == y).double()


def _binned(confidence: Tensor, correct: Tensor, edges: Tensor) -> Reliability:
    """Bin `confidence` (n,) and `correct` (n,) by (lo, hi] at `edges` (B + 1,); none exceeds the last."""
    index = torch.bucketize(confidence, edges[1:])
    count = len(edges) - 1
    counts = torch.bincount(index, minlength=count)

    def mean(values: Tensor) -> Tensor:
        return torch.bincount(index, weights=values.double(), minlength=count) / counts

    return Reliability(edges.double(), counts, mean(confidence), mean(correct))
