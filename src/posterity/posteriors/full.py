"""Full: a Gaussian with any covariance, for small networks and last layers.

    w = mean + L eps,    eps ~ N(0, I_N),    L = diag(s) (I + T),    s = softplus(rho),    Sigma = L L^T

T is strictly lower triangular and in units of s: one rate then suits it whatever a layer's scale is, as for low_rank's
deviations. Only its N (N - 1) / 2 entries are stored, row by row. s_i is weight i's sd given the weights before it,
T_ij how many of these sds it moves with eps_j. With e = (I + T)^-1 (w - mean) / s:
    log q(w)   = -sum_i [ e_i^2 / 2 + log s_i + log(2 pi) / 2 ]
    variance_i = s_i^2 (1 + sum_j T_ij^2)
    entropy    = sum_i [ log s_i + (1 + log(2 pi)) / 2 ]
    kl         = -entropy - E_q log prior,    the last from each weight's marginal, if the prior has independent weights
Weight i's share of the KL is that of its marginal plus log(sd_i / s_i) >= 0, what the weights before it tell of it.

Limits: T = 0 gives mean-field. T starts there: unlike low-rank's deviations it has a gradient at 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from posterity.core.errors import UsageError
from posterity.core.scale import rho_of
from posterity.posteriors.independent import HALF_LOG_2PI
from posterity.posteriors.posterior import Posterior, PriorLike

MOST_WEIGHTS = 10_000  # whose covariance in single precision has 400 MB; training holds it about five times


class Full(Posterior):
    """A Gaussian with mean (N,), free scale parameters `rho` (N,) and `lower`, T's entries (N (N - 1) / 2,)."""

    kind = "full"

    mean: nn.Parameter

    def __init__(self, mean: Tensor, rho: Tensor, lower: Tensor) -> None:
        super().__init__()
        if mean.dim() != 1 or mean.shape != rho.shape or lower.shape != (_num_lower(len(mean)),):
            shapes = ", ".join(str(tuple(t.shape)) for t in (mean, rho, lower))
            raise UsageError(f"mean, rho and lower must have shapes (N,), (N,) and (N (N - 1) / 2,), not {shapes}")
        self.mean = nn.Parameter(mean.detach().clone())
        self.rho = nn.Parameter(rho.detach().clone())
        self.lower = nn.Parameter(lower.detach().clone())

    @classmethod
    def _start(cls, mean: Tensor, sd: Tensor, *, layers: Sequence[int], seed: int) -> Full:
        return cls(mean, rho_of(sd).to(mean), mean.new_zeros(_num_lower(len(mean))))

    @classmethod
    def of_precision(cls, mean: Tensor, precision: Tensor) -> Full:
        """N(mean, precision^-1) for `precision` (N, N), factored in double precision and kept with the type of `mean`.

        With precision = U U^T, U upper triangular, L = U^-T: the covariance itself is never formed.
        """
        check_size(len(mean))
        factor, failed = torch.linalg.cholesky_ex(precision.double().flip(0, 1))
        if failed:
            raise UsageError("the precision of a Gaussian must be positive definite, which this one is not")
        identity = torch.eye(len(mean), dtype=torch.float64, device=mean.device)
        scale = torch.linalg.solve_triangular(factor.flip(0, 1), identity, upper=True).T
        sd = scale.diagonal()
        return cls(mean, rho_of(sd).to(mean), (scale / sd.unsqueeze(1))[_strictly_lower(scale)].to(mean))

    @property
    def own_sd(self) -> Tensor:
        """s = softplus(rho) (N,): what a weight varies by given those before it."""
        return F.softplus(self.rho)

    @property
    def sd(self) -> Tensor:
        """Standard deviation of each weight (N,)."""
        return self.variance().sqrt()

    @property
    def together(self) -> Tensor:
        """T (N, N), strictly lower triangular."""
        empty = self.lower.new_zeros(self.num_weights, self.num_weights)
        return empty.masked_scatter(_strictly_lower(empty), self.lower)

    def variance(self) -> Tensor:
        """s^2 (1 + sum_j T_ij^2) (N,)."""
        return self.own_sd.square() * (1 + self.together.square().sum(1))

    def covariance(self) -> Tensor:
        """L L^T (N, N)."""
        scale = self.own_sd.unsqueeze(1) * (self.together + torch.eye(self.num_weights).to(self.mean))
        return torch.matmul(scale, scale.T)

    def sample(self, noise: Tensor) -> Tensor:
        """Weights (S, N) for standard normal `noise` (S, N)."""
        return torch.addcmul(self.mean, self.own_sd, noise + torch.matmul(noise, self.together.T))

    def log_density(self, weights: Tensor) -> Tensor:
        """log q(w) (S,)."""
        sd = self.own_sd.double()
        apart = (weights.double() - self.mean.double()) / sd
        upper = self.together.double().T
        apart = torch.linalg.solve_triangular(upper, apart, upper=True, left=False, unitriangular=True)  # e (S, N)
        value: Tensor = -0.5 * apart.square().sum(-1) - (sd.log() + HALF_LOG_2PI).sum()
        return value.to(weights.dtype)

    def entropy(self) -> Tensor:
        """(log det Sigma + N (1 + log 2 pi)) / 2, which T does not change."""
        return (self.own_sd.log() + HALF_LOG_2PI + 0.5).sum()

    def has_kl(self, prior: PriorLike) -> bool:
        """Of a prior with dependent weights the expectation under q is not known."""
        return prior.factorised

    def kl_by_weight(self, prior: PriorLike) -> Tensor:
        """-entropy - E_q log prior (N,), shared out as in the header."""
        if not self.has_kl(prior):
            raise UsageError(
                f"there is no closed-form KL from a {self.kind} posterior to a {prior.kind} prior over groups of "
                "weights: take posterior 'mean_field', or a prior of independent weights"
            )
        return -self.own_sd.log() - HALF_LOG_2PI - 0.5 - prior.expected_log_density(self.mean, self.sd)

    def weight_index(self, parameter: Tensor, index: int) -> int:
        """Entry k of `lower` is in row i of T, where i (i - 1) / 2 <= k."""
        if parameter is not self.lower:
            return index
        ends = torch.arange(self.num_weights).cumsum(0)  # of the rows
        return int(torch.searchsorted(ends, index, right=True))

    @classmethod
    def empty(cls, num_weights: int, **options: Any) -> Full:
        """Zeros, to be loaded."""
        return cls(torch.zeros(num_weights), torch.zeros(num_weights), torch.zeros(_num_lower(num_weights)))

    def groups(self) -> dict[str, list[nn.Parameter]]:
        """Means and spread: T is trained with the standard deviations."""
        return {"mean": [self.mean], "sd": [self.rho, self.lower]}


def check_size(num_weights: int) -> None:
    """Refuse more weights than a full covariance is for."""
    if num_weights > MOST_WEIGHTS:
        raise UsageError(
            f"a full covariance of {num_weights} weights has {num_weights**2:.1e} entries; {MOST_WEIGHTS} weights are "
            "the most: make fewer weights Bayesian (select=), or take posterior 'low_rank'"
        )


def _num_lower(num_weights: int) -> int:
    """How many entries T has; refused before they are made where they are too many."""
    check_size(num_weights)
    return num_weights * (num_weights - 1) // 2


def _strictly_lower(matrix: Tensor) -> Tensor:
    """Where T may be other than 0 in a matrix of this shape."""
    return torch.ones_like(matrix, dtype=torch.bool).tril(-1)
