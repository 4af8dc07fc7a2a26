"""What every prior over the flat weight vector offers, and what a user asks for before there is a vector."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Protocol

from torch import Tensor, nn

from posterity.core.layout import Layout


class PriorRule(Protocol):
    """What a user asks for, such as `Gaussian("kaiming")`: to be bound to a network's layout."""

    def bind(self, layout: Layout, weights: Tensor) -> Prior:
        """The prior over the flat vector; `weights` (N,) are the network's present ones."""


class Prior(nn.Module, ABC):
    """A distribution over the flat weight vector (N,), with independent weights."""

    kind: ClassVar[str]

    @property
    @abstractmethod
    def mean(self) -> Tensor:
        """(N,), or (1,) where it is the same for all."""

    @property
    @abstractmethod
    def sd(self) -> Tensor:
        """Standard deviation of each weight (N,)."""

    @abstractmethod
    def log_density_by_weight(self, weights: Tensor) -> Tensor:
        """Each weight's share (..., N) of log prior(w)."""

    def log_density(self, weights: Tensor) -> Tensor:
        """log prior(w) (...,) for `weights` (..., N)."""
        return self.log_density_by_weight(weights).sum(-1)

    @abstractmethod
    def sample(self, noise: Tensor) -> Tensor:
        """Weights (S, N) for standard normal `noise` (S, N)."""

    @classmethod
    @abstractmethod
    def empty(cls, num_weights: int, **options: Any) -> Prior:
        """One of N weights and the given `options`, its tensors still to be loaded."""

    def options(self) -> dict[str, Any]:
        """What `empty` needs beside N to build it again: plain values."""
        return {}
