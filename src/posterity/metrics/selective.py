"""Selective prediction: answer only where the uncertainty is small, and see how the risk falls.

With the data in order of growing uncertainty and e_i the error (0 or 1, or any loss) of the i-th:

    coverage_k = k / n,   risk_k = mean_{i <= k} e_i,   k = 1..n
    aurc       = mean_k risk_k                                           [1]

Data of equal uncertainty come in no particular order: each is given their mean error, which is the
expectation over all orders, so that neither value depends on the order of the data.

Limits: risk_n = mean error, always; one constant uncertainty gives risk_k = aurc = mean error.

[1] Geifman, Uziel, El-Yaniv, Bias-reduced uncertainty estimation for deep neural classifiers, 2019.
"""

from __future__ import annotations

import torch
from torch import Tensor

from posterity.core.errors import UsageError
from posterity.metrics import checks


def risk_coverage(uncertainty: Tensor, errors: Tensor) -> tuple[Tensor, Tensor]:
    """Coverage (n,) and risk (n,), float64, of data with `uncertainty` (n,) and `errors` (n,)."""
    uncertainty, errors = checks.vector("uncertainty", uncertainty), checks.vector("errors", errors)
    if errors.shape != uncertainty.shape:
        raise UsageError(f"errors has {len(errors)} entries, expected {len(uncertainty)}, as many as uncertainty.")
    _, group, sizes = torch.unique(uncertainty, return_inverse=True, return_counts=True)
    mean_error = torch.bincount(group, weights=errors) / sizes
    # `unique` sorts: repeating each group's mean gives the errors by growing uncertainty.
    ordered = mean_error.repeat_interleave(sizes)
    kept = torch.arange(1, len(ordered) + 1, dtype=torch.float64, device=ordered.device)
    return kept / len(ordered), ordered.cumsum(dim=0) / kept


def aurc(uncertainty: Tensor, errors: Tensor) -> float:
    """Area under the risk-coverage curve of `uncertainty` (n,) and `errors` (n,); lower is better."""
    return risk_coverage(uncertainty, errors)[1].mean().item()
