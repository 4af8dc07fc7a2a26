"""Baselines of the score gradient: what is subtracted from the cost L_s of a weight sample.

    moving          b = average of the costs of earlier calls, decayed by `decay`, corrected for its start at 0
    leave_one_out   b_s = mean of the other samples' costs in the same call (S >= 2)

Neither depends on the sample it is subtracted from, so that E[b grad log q] = b E[grad log q] = 0: the expectation
stays, the variance falls by what the costs have in common.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from posterity.core.errors import UsageError

MOVING, LEAVE_ONE_OUT = "moving", "leave_one_out"
BASELINES = (MOVING, LEAVE_ONE_OUT)


class MovingBaseline:
    """Decayed averages of costs by name, with a state that can be captured and restored."""

    def __init__(self, *, decay: float = 0.9) -> None:
        if not 0 <= decay < 1:
            raise UsageError(f"a baseline's decay is at least 0 and below 1, not {decay}")
        self.decay = decay
        self._averages: dict[str, tuple[float, float]] = {}  # decayed sum of the costs, and of their weights

    def next(self, name: str, costs: Tensor) -> float:
        """The average of the earlier costs called `name`; `costs` (S,) join it afterwards."""
        total, weight = self._averages.get(name, (0.0, 0.0))
        mean = costs.mean().item()
        self._averages[name] = (self.decay * total + mean, self.decay * weight + 1)
        return total / weight if weight else 0.0

    def state(self) -> dict[str, Any]:
        """Its averages, as plain numbers."""
        return {name: list(pair) for name, pair in self._averages.items()}

    def restore(self, state: dict[str, Any]) -> None:
        """The inverse of `state`."""
        self._averages = {name: (total, weight) for name, (total, weight) in state.items()}


def leave_one_out(costs: Tensor) -> Tensor:
    """The mean of the others' `costs` (S,) for each sample."""
    return (costs.sum() - costs) / (len(costs) - 1)
