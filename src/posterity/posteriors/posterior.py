"""What every posterior over the flat weight vector offers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

from torch import Tensor, nn

from posterity.core.errors import UsageError


class Posterior(nn.Module, ABC):
    """A distribution q over the flat weight vector (N,)."""

    kind: ClassVar[str]
    random: ClassVar[bool] = True
    mean: Tensor

    @property
    def num_weights(self) -> int:
        """N."""
        return self.mean.numel()

    @property
    def noise_size(self) -> int:
        """How many standard normal numbers a draw takes."""
        return self.num_weights

    @property
    def support(self) -> Tensor | None:
        """All weight vectors (K, N) there are, if they can be counted."""
        return None

    @property
    @abstractmethod
    def sd(self) -> Tensor:
        """Standard deviation of each weight (N,)."""

    @abstractmethod
    def sample(self, noise: Tensor) -> Tensor:
        """Weights (..., N) for standard normal `noise` (..., noise_size), differentiable in q's parameters."""

    @abstractmethod
    def log_density(self, weights: Tensor) -> Tensor:
        """log q(w) (S,) for `weights` (S, N)."""

    def log_density_by_weight(self, weights: Tensor) -> Tensor:
        """Each weight's share (S, N) of log q(w), where the weights are independent."""
        raise UsageError(f"log q of a {self.kind} posterior is not a sum over its weights")

    @abstractmethod
    def entropy(self) -> Tensor:
        """-E_q log q(w), in nats."""

    def variance(self) -> Tensor:
        """The covariance's diagonal (N,)."""
        return self.sd.square()

    @classmethod
    @abstractmethod
    def empty(cls, num_weights: int, **options: Any) -> Posterior:
        """One of N weights and the given `options`, its tensors still to be loaded."""

    def options(self) -> dict[str, Any]:
        """What `empty` needs beside N to build it again: plain values."""
        return {}

    @abstractmethod
    def groups(self) -> dict[str, list[nn.Parameter]]:
        """Its parameters by what they are: `mean`, and `sd` where there is one."""
