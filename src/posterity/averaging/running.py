"""Mean and variance of tensors that are seen one by one and not kept.

    n <- n + 1,    d = x - mean,    mean <- mean + d / n,    squares <- squares + d (x - mean)     (Welford)
    variance = squares / n

The mean is the textbook's, (n mean + x) / (n + 1). The variance equals second moment - mean^2, which is how it is
usually written, but does not lose its digits where it is small beside mean^2. Both are kept in double precision.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from posterity.core.precision import wide


class RunningMean:
    """The mean of what `add` was given."""

    def __init__(self) -> None:
        self.count = 0
        self.mean = torch.zeros(0, dtype=torch.float64)

    def add(self, value: Tensor) -> None:
        """One more."""
        value = wide(value.detach())
        if self.count == 0:
            self._begin(value)
        self._place(value)
        self.count += 1
        self._update(value)

    def _begin(self, like: Tensor) -> None:
        self.mean = torch.zeros_like(like)

    def _place(self, like: Tensor) -> None:
        self.mean = self.mean.to(like)  # what was restored lies on the CPU

    def _update(self, value: Tensor) -> None:
        self.mean += (value - self.mean) / self.count

    def state(self) -> dict[str, Any]:
        """What a checkpoint must keep."""
        return {"count": self.count, "mean": self.mean}

    def restore(self, state: dict[str, Any]) -> None:
        """The inverse of `state`."""
        self.count, self.mean = state["count"], state["mean"].clone()


class RunningMoments(RunningMean):
    """The variance, too."""

    def __init__(self) -> None:
        super().__init__()
        self.squares = self.mean

    @property
    def variance(self) -> Tensor:
        """Mean square distance from the mean: divided by n, not n - 1."""
        return self.squares / max(1, self.count)

    def _begin(self, like: Tensor) -> None:
        super()._begin(like)
        self.squares = torch.zeros_like(like)

    def _place(self, like: Tensor) -> None:
        super()._place(like)
        self.squares = self.squares.to(like)

    def _update(self, value: Tensor) -> None:
        before = value - self.mean
        super()._update(value)
        self.squares.addcmul_(before, value - self.mean)

    def state(self) -> dict[str, Any]:
        """What a checkpoint must keep."""
        return {**super().state(), "squares": self.squares}

    def restore(self, state: dict[str, Any]) -> None:
        """The inverse of `state`."""
        super().restore(state)
        self.squares = state["squares"].clone()
