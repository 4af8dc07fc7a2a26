"""Low rank: a Gaussian whose weights vary on their own and, by R deviations, together.

    w = mean + s * (eps + D^T z / sqrt(R - 1)),    eps ~ N(0, I_N),  z ~ N(0, I_R),    s = softplus(rho)
    Sigma = diag(s) (I + D^T D / (R - 1)) diag(s),    D (R, N)

The deviations D are in units of s: one rate then suits them whatever a layer's scale is, and in training they neither
drown the weights' own spread nor vanish beside it. With A = D / sqrt(R - 1), M = I + A A^T (R, R) and
u = (w - mean) / s, by the matrix determinant lemma and Woodbury:
    log det Sigma = 2 sum_i log s_i + log det M
    (w - mean)^T Sigma^-1 (w - mean) = |u|^2 - (A u)^T M^-1 (A u)
so that nothing larger than (R, R) is ever factored. M is made in double precision: where deviations are large, its
smallest eigenvalue, which is at least 1, would drown in the rounding of the largest.

Weight i's share of (log det M) / 2, with M = I + Q diag(l) Q^T and its column a_i of A:
    share_i = 1/2 a_i^T [ integral over t in 0..1 of (I + t A A^T)^-1 ] a_i = 1/2 sum_k (q_k^T a_i)^2 log(1 + l_k) / l_k
It does not depend on the order of the weights, sums to the whole, and is at most log(1 + |a_i|^2) / 2, which it is
where the weight is independent of all others.

Limits: D -> 0 gives mean-field. Source 003's eq. 5, Sigma = diag(v) / 2 + D^T D / (2 (R - 1)), is `LowRank.halved`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from posterity.core.errors import UsageError
from posterity.core.randomness import generator
from posterity.core.scale import rho_of
from posterity.posteriors.independent import HALF_LOG_2PI
from posterity.posteriors.posterior import Posterior, PriorLike

DEFAULT_RANK = 8
FIRST_DEVIATION = 0.1  # in units of s: not 0, where the deviations' gradient is 0
BLOCK = 2**13  # weights at a time in double precision: with 8 deviations 512 KiB


class LowRank(Posterior):
    """A Gaussian with mean (N,), free scale parameters `rho` (N,) and `deviations` D (R, N) in units of s."""

    kind = "low_rank"

    mean: nn.Parameter

    def __init__(self, mean: Tensor, rho: Tensor, deviations: Tensor) -> None:
        super().__init__()
        if mean.dim() != 1 or mean.shape != rho.shape or deviations.shape[1:] != mean.shape:
            shapes = ", ".join(str(tuple(t.shape)) for t in (mean, rho, deviations))
            raise UsageError(f"mean, rho and deviations must have shapes (N,), (N,) and (R, N), not {shapes}")
        if len(deviations) < 2:
            raise UsageError(f"the rank must be at least 2 (the covariance divides by R - 1), not {len(deviations)}")
        self.mean = nn.Parameter(mean.detach().clone())
        self.rho = nn.Parameter(rho.detach().clone())
        self.deviations = nn.Parameter(deviations.detach().clone())

    @classmethod
    def _start(cls, mean: Tensor, sd: Tensor, *, layers: Sequence[int], seed: int, rank: int = DEFAULT_RANK) -> LowRank:
        noise = torch.randn(max(rank, 0), len(mean), generator=generator(seed, "deviations")).to(mean)
        return cls(mean, rho_of(sd).to(mean), FIRST_DEVIATION * noise)

    @classmethod
    def halved(cls, mean: Tensor, variance: Tensor, deviations: Tensor) -> LowRank:
        """Source 003's eq. 5: Sigma = diag(`variance`) / 2 + D^T D / (2 (R - 1))."""
        sd = variance.sqrt()
        # A weight that never moved has neither.
        return cls(mean, rho_of(math.sqrt(0.5) * sd), torch.where(sd > 0, deviations / sd, 0))

    @property
    def rank(self) -> int:
        """R, the number of deviations."""
        return len(self.deviations)

    @property
    def noise_size(self) -> int:
        """N + R: its own noise for each weight, and R numbers that all share."""
        return self.num_weights + self.rank

    @property
    def own_sd(self) -> Tensor:
        """s = softplus(rho) (N,): what a weight varies by without the others."""
        return F.softplus(self.rho)

    @property
    def sd(self) -> Tensor:
        """Standard deviation of each weight (N,), from both parts."""
        return self.variance().sqrt()

    def variance(self) -> Tensor:
        """s^2 (1 + sum_r D_r^2 / (R - 1)) (N,)."""
        squares: Tensor = _SumOfSquares.apply(self.deviations)  # type: ignore[no-untyped-call]
        return self.own_sd.square() * (1 + squares / (self.rank - 1))

    def sample(self, noise: Tensor) -> Tensor:
        """Weights (S, N) for standard normal `noise` (S, N + R)."""
        own, shared = noise.split([self.num_weights, self.rank], dim=-1)
        together = torch.matmul(shared, self.deviations) / math.sqrt(self.rank - 1)
        return torch.addcmul(self.mean, self.own_sd, own + together)

    def log_density(self, weights: Tensor) -> Tensor:
        """log q(w) (S,)."""
        sd, scaled = self.own_sd.double(), self._scaled()
        apart = (weights.double() - self.mean.double()) / sd  # u (S, N)
        factor = _cholesky(torch.matmul(scaled, scaled.T))
        along = torch.matmul(apart, scaled.T).unsqueeze(-1)
        along = torch.linalg.solve_triangular(factor, along, upper=False).squeeze(-1)
        square: Tensor = apart.square().sum(-1) - along.square().sum(-1)
        constant = (sd.log() + HALF_LOG_2PI).sum() + _half_log_det(factor)
        return (-0.5 * square - constant).to(weights.dtype)

    def entropy(self) -> Tensor:
        """(log det Sigma + N (1 + log 2 pi)) / 2."""
        return (self.own_sd.log() + HALF_LOG_2PI + 0.5).sum() + self.half_log_det()

    def has_kl(self, prior: PriorLike) -> bool:
        """Of a prior with dependent weights the expectation under a low-rank q is not known."""
        return prior.factorised

    def kl_by_weight(self, prior: PriorLike) -> Tensor:
        """Each weight's share (N,) of the KL; values only of the deviations' term: `kl` has its gradient."""
        return self.kl_without_correlation(prior) - self.half_log_det_by_weight()

    def kl(self, prior: PriorLike) -> Tensor:
        """KL(q || prior)."""
        return self.kl_without_correlation(prior).sum() - self.half_log_det()

    def kl_without_correlation(self, prior: PriorLike) -> Tensor:
        """The part (N,) of the KL that is a sum over the weights: all but (log det M) / 2."""
        if not self.has_kl(prior):
            raise UsageError(
                f"there is no closed-form KL from a {self.kind} posterior to a {prior.kind} prior over groups of "
                "weights: take posterior 'mean_field', or a prior of independent weights"
            )
        expected = prior.expected_log_density(self.mean, self.sd)
        return -self.own_sd.log() - HALF_LOG_2PI - 0.5 - expected

    def half_log_det(self) -> Tensor:
        """(log det M) / 2: what the deviations add to the entropy, in nats."""
        value: Tensor = _HalfLogDet.apply(self.deviations)  # type: ignore[no-untyped-call]
        return value

    @torch.no_grad()
    def half_log_det_by_weight(self) -> Tensor:
        """Each weight's share (N,) of it; values only, without gradients."""
        scaled = self._scaled()
        gram = torch.matmul(scaled, scaled.T)
        if not gram.isfinite().all():
            return torch.full_like(self.mean, torch.nan)
        values, vectors = torch.linalg.eigh(gram)
        values = values.clamp_min(torch.finfo(values.dtype).tiny)  # log(1 + l) / l -> 1
        shares = torch.matmul(values.log1p() / values, torch.matmul(vectors.T, scaled).square())
        return shares.mul(0.5).to(self.mean.dtype)

    def _scaled(self) -> Tensor:
        """A (R, N), in double precision."""
        return self.deviations.double() / math.sqrt(self.rank - 1)

    @classmethod
    def empty(cls, num_weights: int, *, rank: int = DEFAULT_RANK, **options: Any) -> LowRank:
        """Zeros, to be loaded."""
        return cls(torch.zeros(num_weights), torch.zeros(num_weights), torch.zeros(rank, num_weights))

    def options(self) -> dict[str, Any]:
        """The rank."""
        return {"rank": self.rank}

    def groups(self) -> dict[str, list[nn.Parameter]]:
        """Means and spread: the deviations are trained with the standard deviations."""
        return {"mean": [self.mean], "sd": [self.rho, self.deviations]}


class _SumOfSquares(torch.autograd.Function):
    """D (R, N) -> sum_r D_r^2 (N,), in a third of the memory traffic of what autograd builds."""

    @staticmethod
    def forward(ctx: Any, deviations: Tensor) -> Tensor:
        ctx.save_for_backward(deviations)
        total = deviations[0].square()
        for row in deviations[1:]:
            total.addcmul_(row, row)
        return total

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (deviations,) = ctx.saved_tensors
        result: Tensor = deviations * (2 * grad)
        return result


class _HalfLogDet(torch.autograd.Function):
    """D -> (log det M) / 2,    d/dD = M^-1 A / sqrt(R - 1) = M^-1 D / (R - 1)."""

    @staticmethod
    def forward(ctx: Any, deviations: Tensor) -> Tensor:
        factor = capacitance(deviations)
        ctx.save_for_backward(deviations, factor)
        return _half_log_det(factor).to(deviations.dtype)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        deviations, factor = ctx.saved_tensors
        pull = torch.cholesky_inverse(factor) * (grad / (len(deviations) - 1))
        return torch.matmul(pull.to(deviations), deviations)


def capacitance(deviations: Tensor) -> Tensor:
    """L (R, R) with L L^T = M, in double precision, block by block of the weights so that it stays in the cache."""
    gram = torch.zeros(len(deviations), len(deviations), dtype=torch.float64, device=deviations.device)
    for block in deviations.split(BLOCK, dim=1):
        double = block.double()
        gram.addmm_(double, double.T)
    return _cholesky(gram / (len(deviations) - 1))


def _cholesky(gram: Tensor) -> Tensor:
    """L (R, R) with L L^T = I + A A^T; NaN, which training reports with its place, where that has overflowed."""
    factor: Tensor
    factor, failed = torch.linalg.cholesky_ex(gram + torch.eye(len(gram), dtype=gram.dtype, device=gram.device))
    return torch.where(failed == 0, factor, torch.nan)


def _half_log_det(factor: Tensor) -> Tensor:
    return factor.diagonal().log().sum()
