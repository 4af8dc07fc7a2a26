"""How good Gaussian predictions of real targets are; variances include the noise, in the units of y squared.

    rmse                    = sqrt(mean_ij (y_ij - mean_ij)^2)
    gaussian_log_likelihood = mean_i log mean_s prod_j N(y_ij; mean_sij, variance_sij)     the predictive
    expected_log_likelihood = mean_i mean_s log prod_j N(y_ij; mean_sij, variance_sij)     under q
    crps                    = d erf(z / sqrt 2) + sd (2 phi(z) - 1/sqrt pi),  d = y - mean, z = d / sd   [1]
    coverage                = mean_ij [|d_ij| <= sd_ij sqrt(2) erfinv(level)]

i runs over the n data, j over the k outputs, s over the weight samples. The k outputs of one datum are
independent given the weights but not under the predictive, hence the product inside the mean.

Limits: expected_log_likelihood <= gaussian_log_likelihood (Jensen), equal for one sample; sd -> 0 gives
crps = |d|; d = 0 gives crps = sd (sqrt 2 - 1) / sqrt pi.

[1] Gneiting, Raftery, Strictly proper scoring rules, prediction, and estimation, 2007, eq. 21 (sign turned).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from posterity.core.errors import UsageError
from posterity.metrics import checks


def rmse(mean: Tensor, y: Tensor) -> float:
    """Root mean square error of `mean` against `y`, both (n,) or both (n, k)."""
    mean, y = checks.targets({"mean": mean}, y)
    return (mean - y).square().mean().sqrt().item()


def gaussian_log_likelihood(means: Tensor, variances: Tensor, y: Tensor) -> float:
    """Mean log density of the predictive mixture at `y` (n, k): `means` and `variances` (S, n, k)."""
    density = _log_density(means, variances, y)
    return (density.logsumexp(dim=0) - math.log(len(density))).mean().item()


def expected_log_likelihood(means: Tensor, variances: Tensor, y: Tensor) -> float:
    """Mean over weight samples of the mean log density at `y` (n, k): `means` and `variances` (S, n, k)."""
    return _log_density(means, variances, y).mean().item()


def crps_gaussian(mean: Tensor, variance: Tensor, y: Tensor) -> float:
    """Mean continuous ranked probability score of N(mean, variance) at `y`, all (n,) or all (n, k)."""
    distance, sd = _deviation(mean, variance, y)
    # The floor turns z into +-inf (or 0 at d = 0) where sd = 0, and the formula into its limit |d|.
    z = distance / sd.clamp_min(torch.finfo(sd.dtype).tiny)
    phi = (-0.5 * z.square()).exp() / math.sqrt(2 * math.pi)
    score = distance * torch.erf(z / math.sqrt(2)) + sd * (2 * phi - 1 / math.sqrt(math.pi))
    return score.mean().item()


def coverage(mean: Tensor, variance: Tensor, y: Tensor, level: float = 0.95) -> float:
    """Share of `y` in the central `level` interval of N(mean, variance); all (n,) or all (n, k)."""
    if not 0 < level < 1:
        raise UsageError(f"level is {level!r}, expected a probability in (0, 1), such as 0.95.")
    distance, sd = _deviation(mean, variance, y)
    width = math.sqrt(2) * torch.erfinv(torch.tensor(level, dtype=torch.float64)).item()
    return (distance.abs() <= width * sd).double().mean().item()


def _log_density(means: Tensor, variances: Tensor, y: Tensor) -> Tensor:
    """log N(y; mean, variance) (S, n), summed over the outputs k."""
    means, variances, y = checks.sampled_targets({"means": means, "variances": variances}, y)
    checks.variance(variances, name="variances", zero=False)
    density = -0.5 * ((y - means).square() / variances + (2 * math.pi * variances).log())
    return density.sum(dim=-1)


def _deviation(mean: Tensor, variance: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """y - mean and the standard deviation, as float64."""
    mean, variance, y = checks.targets({"mean": mean, "variance": variance}, y)
    return y - mean, checks.variance(variance, name="variance", zero=True).sqrt()
