"""Samples: a bag of K weight vectors, each as likely as the others (a chain's snapshots, an ensemble).

    q = (1/K) sum_k delta(w - w_k),    mean = (1/K) sum_k w_k,    sd^2 = (1/K) sum_k (w_k - mean)^2

A draw takes k = floor(K Phi(z)) for one standard normal z; where as many draws are wanted as there are vectors, or
more, a prediction takes each exactly once. It has no density; nothing in it is trained: vectors are collected
(averaging, optim.sgld).

Limits: K = 1 is the point posterior; as K grows it is what the vectors were drawn from.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from posterity.core.errors import UsageError
from posterity.posteriors.posterior import Posterior, PriorLike


class Samples(Posterior):
    """The rows of `weights` (K, N)."""

    kind = "samples"
    trainable = False
    weights: Tensor

    def __init__(self, weights: Tensor) -> None:
        super().__init__()
        if weights.dim() != 2 or not len(weights):
            raise UsageError(f"samples are a matrix (K, N) of at least one weight vector, not {tuple(weights.shape)}")
        self.register_buffer("weights", weights.detach().clone())
        self.register_buffer("mean", self.weights.mean(0))

    @classmethod
    def _start(cls, mean: Tensor, sd: Tensor, *, layers: Sequence[int], seed: int) -> Samples:
        raise UsageError(
            "a samples posterior is collected, not trained: train one of another family with average 'samples', or a "
            "point network with optimizer 'sgld' or 'psgld'"
        )

    @property
    def sd(self) -> Tensor:
        """Standard deviation over the bag (N,), 0 for one vector."""
        return self.weights.var(0, correction=0).sqrt()

    @property
    def noise_size(self) -> int:
        """One number chooses a vector."""
        return 1

    @property
    def support(self) -> Tensor:
        """All K vectors."""
        return self.weights

    def sample(self, noise: Tensor) -> Tensor:
        """Weights (..., N) for standard normal `noise` (..., 1)."""
        place = torch.special.ndtr(noise.squeeze(-1).double()) * len(self.weights)
        return self.weights[place.long().clamp_(max=len(self.weights) - 1)]

    def log_density(self, weights: Tensor) -> Tensor:
        """+inf at the vectors, -inf elsewhere (S,)."""
        here = (weights.unsqueeze(-2) == self.weights).all(-1).any(-1)
        return torch.where(here, torch.inf, -torch.inf).to(weights.dtype)

    def entropy(self) -> Tensor:
        """-inf: a bag of points has no density."""
        return self.mean.new_tensor(-torch.inf)

    def kl_by_weight(self, prior: PriorLike) -> Tensor:
        """The mean over the bag of -log prior (N,), up to a constant."""
        return torch.stack([prior.energy_by_weight(weights) for weights in self.weights]).mean(0)

    @classmethod
    def empty(cls, num_weights: int, *, count: int = 1, **options: Any) -> Samples:
        """Zeros, to be loaded."""
        return cls(torch.zeros(count, num_weights))

    def options(self) -> dict[str, Any]:
        """How many vectors there are."""
        return {"count": len(self.weights)}

    def groups(self) -> dict[str, list[nn.Parameter]]:
        """Nothing is trained."""
        return {}
