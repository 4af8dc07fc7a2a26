"""HWA: averages of the parameters of independent Gaussians along the training [1].

    mean_avg <- (n mean_avg + mean) / (n + 1),    and in the same way the mean of mean^2 and of sd^2

    covariance   the averaged posterior's
    snapshot     diag(mean of mean^2 - mean_avg^2): the variance of the means along the training       [1, eq. 4]
    posterior    diag(mean of sd^2)
    total        their sum, by the law of total variance that of a snapshot's posterior, at a random snapshot
    low_rank     diag(snapshot) / 2 + D^T D / (2 (R - 1)),  D_r = mean_r - mean_avg over the last R snapshots
                                                                                                        [1, eq. 5]

Eq. 4 as printed stores the variance in the place of the second moment that the next snapshot needs: here they are
kept apart. D is taken from the final average, as in SWAG, not from the average at the time of each snapshot.

The average is mean-field also where the sds are tied, as the snapshots' variance is each weight's own; a tied iterate
that restarts from it takes the root mean square.

Limits: a training that stands still gives `total` = `posterior` = the iterate and `snapshot` = 0; where the sds are
nearly 0, `total` = `snapshot`.

[1] HWA: Hyperparameters Weight Averaging in Bayesian Neural Networks (source 003).
"""

from __future__ import annotations

from collections import deque
from typing import Any

import torch
from torch import Tensor

from posterity.averaging.running import RunningMean, RunningMoments
from posterity.averaging.swa import SWA
from posterity.bayesian import BayesianModule
from posterity.core.errors import UsageError, unknown_name
from posterity.core.precision import wide
from posterity.posteriors import LowRank, MeanField, Posterior, rho_of

COVARIANCES = ("total", "snapshot", "posterior", "low_rank")
DEFAULT_RANK = 10


class HWA(SWA):
    """Running moments of the means and mean of the variances; for `low_rank` the last `rank` means, too."""

    kind = "hwa"
    moves_sds = True

    def __init__(self, *, covariance: str = "total", rank: int = DEFAULT_RANK) -> None:
        super().__init__()
        if covariance not in COVARIANCES:
            raise unknown_name("covariance", covariance, COVARIANCES)
        if rank < 2:
            raise UsageError(f"the average's rank must be at least 2, not {rank}")
        self.covariance = covariance
        self.means: RunningMoments = RunningMoments()
        self.variances = RunningMean()
        self.snapshots: deque[Tensor] = deque(maxlen=rank)

    @property
    def keeps_last(self) -> bool:
        """For its low-rank covariance."""
        return self.covariance == "low_rank"

    @property
    def needed(self) -> int:
        """Two where the spread comes from the snapshots alone."""
        return 2 if self.covariance in ("snapshot", "low_rank") else 1

    def check(self, posterior: Posterior) -> None:
        """Refuse weights that vary together, or not at all."""
        if not (posterior.random and posterior.independent):
            raise UsageError(
                "hwa averages the standard deviations of independent weights, which a "
                f"{posterior.kind} posterior does not have: use swa"
            )

    def update(self, net: BayesianModule) -> None:
        """Take a snapshot of `net`."""
        self.check(net.posterior)
        super().update(net)
        self.variances.add(wide(net.posterior.sd.detach()).square())
        if self.covariance == "low_rank":
            self.snapshots.append(net.posterior.mean.detach().clone())

    def variance(self) -> Tensor:
        """The diagonal (N,) that `covariance` names, in double precision; for `low_rank` eq. 5's diagonal matrix."""
        if self.covariance == "posterior":
            return self.variances.mean
        if self.covariance == "total":
            return self.means.variance + self.variances.mean
        return self.means.variance

    def posterior(self, last: Posterior) -> Posterior:
        """The averaged posterior: mean-field, or low-rank for that covariance."""
        if self.count < self.needed:
            raise UsageError(f"covariance '{self.covariance}' takes {self.needed} snapshots; there are {self.count}")
        # A weight that never moved has no variance: one just above 0 keeps its logarithm finite.
        variance = self.variance().clamp_min(4 * torch.finfo(last.mean.dtype).tiny)
        if self.covariance != "low_rank":
            return MeanField(self.means.mean.to(last.mean), rho_of(variance.sqrt()).to(last.mean))
        deviations = torch.stack([wide(snapshot).to(self.means.mean) - self.means.mean for snapshot in self.snapshots])
        return LowRank.halved(self.means.mean, variance, deviations).to(last.mean)

    @torch.no_grad()
    def restart(self, net: BayesianModule) -> None:
        """Move the iterate to the average: means, and sds once there are snapshots enough (for `low_rank` eq. 5's)."""
        super().restart(net)
        if self.count >= self.needed:
            net.posterior.set_sd(self.posterior(net.posterior).sd)

    def state(self) -> dict[str, Any]:
        """What a checkpoint must keep."""
        return {**super().state(), "variances": self.variances.state(), "snapshots": list(self.snapshots)}

    def restore(self, state: dict[str, Any]) -> None:
        """The inverse of `state`."""
        super().restore(state)
        self.variances.restore(state["variances"])
        self.snapshots.clear()
        self.snapshots.extend(state["snapshots"])
