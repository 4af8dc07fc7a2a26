"""Student-t noise of residuals under a mixture of weight samples, by maximum likelihood.

    (c, v) = argmax  mean_n w_n log 1/S sum_s t_v(e_ns / c) / (c u_ns)

for residuals e of S weight samples at n rows, in units u: the scale c and the degrees of freedom v of one target.
L-BFGS with bounds goes over log c and 1 / v, in which the density is smooth where v grows; it is deterministic.
Limits: at MOST_DF v becomes infinite, the noise Gaussian; c is at least what is given, though all residuals be 0.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from scipy import optimize
from torch import Tensor

from posterity.core.precision import wide
from posterity.likelihoods.prediction import Array
from posterity.likelihoods.student_prediction import log_student

LEAST_DF, MOST_DF = 3.0, 200.0  # its sd is 1.7 scales; what no data tell from a Gaussian
START_DF = 5.0
ROOM = 10.0  # above the residuals' root mean square, that the scale is looked for in
HOW: dict[str, Any] = {"method": "L-BFGS-B", "options": {"ftol": 1e-12, "gtol": 1e-8, "maxiter": 200}}


class StudentFit(NamedTuple):
    """What was found: scale in the residuals' units, degrees of freedom, mean log density."""

    scale: float
    df: float
    log_density: float


def student_fit(residuals: Tensor, units: Tensor, least: float, weight: Tensor | None = None) -> StudentFit:
    """The best (scale, df) of `residuals` (S, n) in `units` (S, n), rows by `weight` (n,); the scale is >= `least`."""
    counts = torch.ones_like(residuals[0]) if weight is None or not weight.any() else wide(weight)
    shares, log_units = counts / counts.sum(), units.log()

    def density(log_scale: Tensor, inverse_df: Tensor) -> Tensor:
        logs = log_student(residuals * (-log_scale).exp(), 1 / inverse_df) - log_units - log_scale
        return torch.dot(shares, logs.logsumexp(0)) - math.log(len(residuals))

    def loss(at: Array) -> tuple[float, Array]:
        with torch.enable_grad():
            free = torch.tensor(at.tolist(), dtype=residuals.dtype, device=residuals.device, requires_grad=True)
            value = -density(free[0], free[1] if len(at) > 1 else free.new_zeros(()))
            (gradient,) = torch.autograd.grad(value, free)
        return value.item(), gradient.cpu().numpy().astype("float64")

    rms = torch.dot(shares, residuals.square().mean(0)).sqrt().item()
    start = math.log(max(rms, least))
    scales, dfs = (math.log(least), start + math.log(ROOM)), (1 / MOST_DF, 1 / LEAST_DF)
    first = max(start + 0.5 * math.log(1 - 2 / START_DF), scales[0])
    heavy = optimize.minimize(loss, [first, 1 / START_DF], jac=True, bounds=[scales, dfs], **HOW)
    if heavy.x[1] > 1.001 / MOST_DF:
        return StudentFit(math.exp(heavy.x[0]), 1 / float(heavy.x[1]), -float(heavy.fun))
    gaussian = optimize.minimize(loss, [start], jac=True, bounds=[scales], **HOW)
    return StudentFit(math.exp(gaussian.x[0]), math.inf, -float(gaussian.fun))
