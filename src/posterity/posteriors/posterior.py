"""What every posterior over the flat weight vector offers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Protocol

from torch import Tensor, nn

from posterity.core.errors import UsageError
from posterity.core.options import Option, check_options, options_of


class PriorLike(Protocol):
    """What a posterior must know of a prior for its KL."""

    kind: ClassVar[str]

    @property
    def factorised(self) -> bool:
        """Whether its weights are independent."""

    def energy_by_weight(self, weights: Tensor) -> Tensor:
        """Each weight's share (..., N) of -log prior(w), up to a constant."""

    def expected_log_density(self, mean: Tensor, sd: Tensor) -> Tensor:
        """Each weight's share (N,) of E log prior(w) for w ~ N(mean, sd^2)."""


class Posterior(nn.Module, ABC):
    """A distribution q over the flat weight vector (N,)."""

    kind: ClassVar[str]
    random: ClassVar[bool] = True
    independent: ClassVar[bool] = False  # whether the weights are, under q
    trainable: ClassVar[bool] = True  # whether there is anything to train, and so to start
    mean: Tensor

    @classmethod
    def start(cls, mean: Tensor, sd: Tensor, *, layers: Sequence[int], seed: int, **options: Any) -> Posterior:
        """One that starts at `mean` and `sd` (N,); `layers` are the sizes of the vector's consecutive layers.

        What must be random comes from `seed`. The `options` are the family's own (`start_options`).
        """
        if options:
            cls.check_start(options)
        return cls._start(mean, sd, layers=layers, seed=seed, **options)

    @classmethod
    def check_start(cls, options: Mapping[str, Any]) -> None:
        """Refuse options that `start` does not take for this family, or that are of another kind than it takes."""
        check_options(f"a {cls.kind} posterior", options, cls._options())

    @classmethod
    def start_options(cls) -> dict[str, Any]:
        """Names and defaults of the options that `start` takes for this family."""
        return {name: option.default for name, option in cls._options().items()}

    @classmethod
    def _options(cls) -> dict[str, Option]:
        return options_of(cls._start, beside=("mean", "sd", "layers", "seed"))

    @classmethod
    @abstractmethod
    def _start(cls, *args: Any, **kwargs: Any) -> Posterior:
        """`start` with known options, which are the keywords of its signature beside `layers` and `seed`."""

    @property
    def num_weights(self) -> int:
        """N, the length of the vector."""
        return self.mean.numel()

    @property
    def noise_size(self) -> int:
        """How many standard normal numbers a draw takes."""
        return self.num_weights

    @property
    def support(self) -> Tensor | None:
        """All weight vectors (K, N) there are, if they can be counted."""
        return None

    def evenly(self, noise: Tensor, first: int, total: int) -> Tensor:
        """The `noise` (S, noise_size) of draws `first`, `first` + 1, ... of `total`, made to cover q more evenly."""
        return noise

    @property
    @abstractmethod
    def sd(self) -> Tensor:
        """Standard deviation of each weight (N,)."""

    def set_sd(self, sd: Tensor) -> None:
        """Move the standard deviations to `sd` (N,), or as near as the family has them."""
        raise UsageError(f"a {self.kind} posterior has no standard deviations of its own that could be set")

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

    def has_kl(self, prior: PriorLike) -> bool:
        """Whether the KL to `prior` is known without sampling."""
        return True

    @abstractmethod
    def kl_by_weight(self, prior: PriorLike) -> Tensor:
        """Each weight's share (N,) of KL(q || prior), by the generic way (objectives.pairs has the special ones)."""

    def kl(self, prior: PriorLike) -> Tensor:
        """KL(q || prior), by the generic way."""
        return self.kl_by_weight(prior).sum()

    def variance(self) -> Tensor:
        """The covariance's diagonal (N,)."""
        return self.sd.square()

    def weight_index(self, parameter: Tensor, index: int) -> int:
        """The place in the vector of the (first) weight that place `index` on the last axis of `parameter` is for."""
        return index

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
