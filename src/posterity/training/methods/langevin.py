"""Langevin dynamics: a point network whose path samples the posterior.

    U = (num_data / temperature) loss,    loss = nll + temperature (-log prior) / num_data

whose dynamics samples exp(-U) = P(y | w)^(1 / temperature) prior(w): what the tempered ELBO's q approximates. The
iterates after a burn-in are collected into a posterior of the family `samples`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from torch.optim import Optimizer

from posterity.core.errors import UsageError
from posterity.core.randomness import derive
from posterity.optim import SGLD
from posterity.training.groups import ParameterGroup
from posterity.training.methods.method import Subject, WholeMethod


@dataclass(frozen=True)
class Dynamics:
    """A sampler's optimiser, its settings, and its default rate as that of the drift alone.

    At this `drift` the steps without noise are plain SGD's (or, preconditioned, RMSprop's) on the mean loss.
    """

    make: type[Optimizer]
    drift: float
    settings: dict[str, Any] = field(default_factory=dict)


DYNAMICS = {
    "sgld": Dynamics(SGLD, drift=0.05),
    "psgld": Dynamics(SGLD, drift=1e-3, settings={"preconditioned": True}),
}


class Langevin(WholeMethod):
    """Moves a point network; its samples are collected."""

    collects = "samples"

    def refuse(self, subject: Subject) -> None:
        """It needs a point to move."""
        super().refuse(subject)
        if subject.net.posterior.random:
            raise UsageError(
                f"'{self.name}' moves one weight vector and collects samples of it: it trains a network with "
                f"posterior 'point', not '{subject.net.posterior.kind}'"
            )

    def groups(self, subject: Subject) -> list[ParameterGroup]:
        """One group for the weight vector."""
        dynamics = DYNAMICS[self.name]
        effective = subject.num_data / self.temperature(subject)
        lr = 2 * dynamics.drift / effective if subject.settings.lr is None else subject.settings.lr
        given = {"num_data": effective, "seed": derive(subject.settings.seed, "langevin"), **dynamics.settings}
        return self.whole_groups(subject, dynamics.make, lr=lr, given=given)
