"""Out-of-distribution detection by any uncertainty: out of distribution is the positive class.

With a_i the scores in distribution (n), b_j those out of it (m), higher = more uncertain, an input is
called out of distribution when its score >= t:

    auroc      = mean_ij ([b_j > a_i] + [b_j = a_i] / 2)                     Mann-Whitney
    aupr       = mean_j tp_j / (tp_j + fp_j),   tp_j = #{b >= b_j}, fp_j = #{a >= b_j}
    fpr_at_tpr = mean_i [a_i >= t],             t = the largest threshold with mean_j [b_j >= t] >= tpr

`aupr` is the average precision (a step function, not interpolated). All three count, hence are exact
with ties, and depend on the scores' order only.

Limits: separated scores give 1, 1, 0; one constant score gives 1/2, m / (n + m), 1; exchanging the two
sets gives 1 - auroc.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from posterity.core.errors import UsageError
from posterity.metrics import checks


def auroc(in_scores: Tensor, out_scores: Tensor) -> float:
    """Probability that an `out_scores` (m,) entry exceeds an `in_scores` (n,) entry, ties counting half."""
    inside, outside = _scores(in_scores, out_scores)
    inside = inside.sort().values
    below = torch.searchsorted(inside, outside)
    not_above = torch.searchsorted(inside, outside, right=True)
    return 0.5 * int((below + not_above).sum()) / (len(inside) * len(outside))


def aupr(in_scores: Tensor, out_scores: Tensor) -> float:
    """Average precision of finding the `out_scores` (m,) among the `in_scores` (n,)."""
    inside, outside = _scores(in_scores, out_scores)
    true = _at_least(outside, outside)
    false = _at_least(inside, outside)
    return (true.double() / (true + false)).mean().item()


def fpr_at_tpr(in_scores: Tensor, out_scores: Tensor, tpr: float = 0.95) -> float:
    """Share of `in_scores` (n,) called out of distribution when at least `tpr` of `out_scores` (m,) are."""
    if not 0 < tpr <= 1:
        raise UsageError(f"tpr is {tpr!r}, expected a share in (0, 1], such as 0.95.")
    inside, outside = _scores(in_scores, out_scores)
    # The slack undoes products such as 0.07 * 100 = 7.000000000000001.
    needed = max(1, math.ceil(tpr * len(outside) - 1e-9))
    threshold = outside.sort(descending=True).values[needed - 1]
    return (inside >= threshold).double().mean().item()


def _scores(in_scores: Tensor, out_scores: Tensor) -> tuple[Tensor, Tensor]:
    return checks.vector("in_scores", in_scores), checks.vector("out_scores", out_scores)


def _at_least(scores: Tensor, thresholds: Tensor) -> Tensor:
    """How many `scores` (n,) are >= each of the `thresholds` (m,)."""
    return len(scores) - torch.searchsorted(scores.sort().values, thresholds)
