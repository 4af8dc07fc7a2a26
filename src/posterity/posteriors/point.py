"""Point: all mass on one weight vector, which gives maximum likelihood or MAP training with the same code.

    w = mean,    sd = 0

Its KL to a continuous prior is infinite by a constant that does not depend on `mean`; what is left,
-log prior(mean), is the MAP penalty. With temperature 0 it is maximum likelihood.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from posterity.posteriors.posterior import Posterior, PriorLike


class Point(Posterior):
    """A delta at `mean` (N,)."""

    kind = "point"
    random = False
    independent = True
    mean: nn.Parameter

    def __init__(self, mean: Tensor) -> None:
        super().__init__()
        self.mean = nn.Parameter(mean.detach().clone())

    @classmethod
    def _start(cls, mean: Tensor, sd: Tensor, *, layers: Sequence[int], seed: int) -> Point:
        return cls(mean)

    @property
    def sd(self) -> Tensor:
        """Zeros (N,)."""
        return torch.zeros_like(self.mean)

    def sample(self, noise: Tensor) -> Tensor:
        """The same weights (S, N), whatever the noise."""
        return self.mean.expand_as(noise)

    def log_density(self, weights: Tensor) -> Tensor:
        """+inf at the point, -inf elsewhere (S,)."""
        here = (weights == self.mean).all(-1)
        return torch.where(here, torch.inf, -torch.inf).to(weights.dtype)

    def entropy(self) -> Tensor:
        """-inf: a delta has no density."""
        return self.mean.new_tensor(-torch.inf)

    def kl_by_weight(self, prior: PriorLike) -> Tensor:
        """-log prior(mean) (N,), up to a constant."""
        return prior.energy_by_weight(self.mean)

    @classmethod
    def empty(cls, num_weights: int, **options: Any) -> Point:
        """Zeros, to be loaded."""
        return cls(torch.zeros(num_weights))

    def groups(self) -> dict[str, list[nn.Parameter]]:
        """Means only."""
        return {"mean": [self.mean]}
