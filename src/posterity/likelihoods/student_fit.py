"""Student-t noise of data that were left out, under a mixture of weight samples, by penalised maximum likelihood.

    max  sum_n w_n log 1/S sum_s t_v((e_n - k d_ns) / c_ns) / c_ns - 2 b^2 - (log k)^2 / 2,    c_ns = c u_ns exp(b t_ns)

for rows n whose left-out residual from the samples' mean is e_n, and S weight samples d_ns off that mean, in units u:

    c  scale, v  degrees of freedom, of the noise of one target
    b  slope of the log scale over t, the sample's own output in standard units: noise that grows with what is predicted
    k  stretch of the weight samples, at least 1: a posterior at a temperature below 1 is too narrow

L-BFGS with bounds goes over log c, 1 / v, b and log k, in which the density is smooth; it is deterministic.
Limits: at MOST_DF v becomes infinite, the noise Gaussian; c is at least what is given, though all residuals be 0;
without t there is no slope; samples that are all the same leave k = 1; many rows: maximum likelihood.
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
MOST_SLOPE, MOST_STRETCH = 2.0, 10.0
PULLS = (2.0, 0.5)  # of the slope to 0, of the log stretch to 0: as much as a few data
HOW: dict[str, Any] = {"method": "L-BFGS-B", "options": {"ftol": 1e-12, "gtol": 1e-8, "maxiter": 200}}


class StudentFit(NamedTuple):
    """What was found: scale in the residuals' units, degrees of freedom, slope, stretch; and the mean log density."""

    scale: float
    df: float
    slope: float
    stretch: float
    log_density: float


def student_fit(
    left_out: Tensor,
    off: Tensor,
    units: Tensor,
    least: float,
    weight: Tensor | None = None,
    trend: Tensor | None = None,
) -> StudentFit:
    """The best noise of residuals `left_out` (n,) from the mean of samples that are `off` (S, n) it, in `units` (S, n).

    Rows count by `weight` (n,); the scale is >= `least`; `trend` (S, n) is t of the header.
    """
    counts = torch.ones_like(left_out) if weight is None or not weight.any() else wide(weight)
    shares, log_units, num_samples = counts / counts.sum(), units.log(), len(off)
    pulls = [pull / counts.sum().item() for pull in PULLS]

    def density(at: Tensor) -> Tensor:
        log_scale, slope, log_stretch, inverse_df = at
        logs = log_units + log_scale if trend is None else log_units + log_scale + slope * trend
        residuals = (left_out - log_stretch.exp() * off) * (-logs).exp()
        each = (log_student(residuals, 1 / inverse_df) - logs).logsumexp(0) - math.log(num_samples)
        return torch.dot(shares, each)

    def loss(at: Array) -> tuple[float, Array]:
        with torch.enable_grad():
            free = torch.tensor([*at.tolist(), *[0.0] * (4 - len(at))], dtype=off.dtype, device=off.device)
            free.requires_grad_()
            value = pulls[0] * free[1].square() + pulls[1] * free[2].square() - density(free)
            (gradient,) = torch.autograd.grad(value, free)
        return value.item(), gradient[: len(at)].cpu().numpy().astype("float64")

    rms = torch.dot(shares, ((left_out - off) / units).square().mean(0)).sqrt().item()
    start = math.log(max(rms, least))
    slopes = (0.0, 0.0) if trend is None else (-MOST_SLOPE, MOST_SLOPE)
    stretches = (0.0, math.log(MOST_STRETCH) if off.any() else 0.0)
    bounds = [(math.log(least), start + math.log(ROOM)), slopes, stretches]
    first = max(start + 0.5 * math.log(1 - 2 / START_DF), bounds[0][0])
    dfs = (1 / MOST_DF, 1 / LEAST_DF)
    found = optimize.minimize(loss, [first, 0.0, 0.0, 1 / START_DF], jac=True, bounds=[*bounds, dfs], **HOW)
    df = 1 / float(found.x[3])
    if found.x[3] <= 1.001 / MOST_DF:
        found, df = optimize.minimize(loss, [start, 0.0, 0.0], jac=True, bounds=bounds, **HOW), math.inf
    at = torch.tensor([*found.x[:3].tolist(), 1 / df], dtype=off.dtype, device=off.device)
    scale, slope, stretch = math.exp(found.x[0]), float(found.x[1]), math.exp(found.x[2])
    return StudentFit(scale, df, slope, stretch, density(at).item())
