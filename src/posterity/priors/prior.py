"""What every prior over the flat weight vector offers, and what a user asks for before there is a vector."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Protocol

from torch import Tensor, nn
from typing_extensions import Self

from posterity.core.errors import UsageError
from posterity.core.layout import Layout
from posterity.priors.expectations import NODES, hermite, in_chunks


class PriorRule(Protocol):
    """What a user asks for, such as `Gaussian("kaiming")`: to be bound to a network's layout."""

    def bind(self, layout: Layout, weights: Tensor) -> Prior:
        """The prior over the flat vector; `weights` (N,) are the network's present ones."""


class Prior(nn.Module, ABC):
    """A distribution over the flat weight vector (N,), with independent weights unless `factorised` is False."""

    kind: ClassVar[str]
    by_weight: ClassVar[tuple[str, ...]]  # names of the buffers (N,) that hold one value for each weight
    learnable: ClassVar[bool] = False  # whether it has a `fit_scale`

    @property
    def factorised(self) -> bool:
        """Whether the weights are independent."""
        return True

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

    def energy_by_weight(self, weights: Tensor) -> Tensor:
        """Each weight's share (..., N) of -log prior(w), up to a constant: what a point posterior pays."""
        return -self.log_density_by_weight(weights)

    def expected_log_density(self, mean: Tensor, sd: Tensor) -> Tensor:
        """Each weight's share (N,) of E log prior(w) for w ~ N(mean, sd^2), differentiable in both.

        By Gauss-Hermite quadrature, unless the prior knows better.
        """

        def chunk(mean: Tensor, sd: Tensor, where: slice) -> Tensor:
            nodes, weights = hermite(NODES, mean)
            return (weights * self.restricted(where).log_density_by_weight(mean + sd * nodes)).sum(0)

        return in_chunks(chunk, mean, sd, NODES)

    def restricted(self, where: slice) -> Self:
        """The prior of some of the weights, on views of the same tensors."""
        some = copy.copy(self)
        kept = {name: b if b is None or name not in self.by_weight else b[where] for name, b in self._buffers.items()}
        some.__dict__["_buffers"] = kept
        return some

    @abstractmethod
    def sample(self, noise: Tensor) -> Tensor:
        """Weights (S, N) for standard normal `noise` (S, N)."""

    def check_learnable(self) -> None:
        """Refuse a prior whose scale cannot be learnt."""
        if not self.learnable:
            raise UsageError(
                f"the scale of a {self.kind} prior cannot be learnt; that of a gaussian or laplace prior can"
            )

    def fit_scale(self, mean: Tensor, sd: Tensor, sizes: Sequence[int]) -> None:
        """Set the scale of each of the consecutive weight tensors to what minimises KL(N(mean, sd^2) || prior)."""
        self.check_learnable()

    @classmethod
    @abstractmethod
    def empty(cls, num_weights: int, **options: Any) -> Prior:
        """One of N weights and the given `options`, its tensors still to be loaded."""

    def options(self) -> dict[str, Any]:
        """What `empty` needs beside N to build it again: plain values."""
        return {}
