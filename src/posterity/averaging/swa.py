"""SWA: stochastic weight averaging [1], of the means of any posterior.

    mean_avg <- (n mean_avg + mean) / (n + 1),    for the n + 1st snapshot of the training

What else a network learns, its deterministic weights and the likelihood's noise, is averaged in the same way. All that
gives the posterior its spread (rho, deviations) is the last iterate's: HWA is the average that has a spread of its own.
Batch-norm statistics belong to the weights they were gathered with, and must be gathered anew (averaging.batch_norm).

Limits: one snapshot gives the iterate itself; a training that stands still gives it, too.

[1] Izmailov et al., Averaging weights leads to wider optima and better generalization, 2018.
"""

from __future__ import annotations

import copy
from typing import Any, ClassVar

import torch
from torch import Tensor

from posterity.averaging.running import RunningMean
from posterity.bayesian import BayesianModule
from posterity.posteriors import Posterior


class SWA:
    """Running means of all that is trained but the posterior's spread."""

    kind: ClassVar[str] = "swa"
    restarts: ClassVar[bool] = True  # whether a training can go on from it
    moves_sds: ClassVar[bool] = False  # whether a restart moves standard deviations, too

    @property
    def keeps_last(self) -> bool:
        """Whether it keeps the last few snapshots, as many as its rank."""
        return False

    def __init__(self) -> None:
        self.means = RunningMean()
        self.others: dict[str, RunningMean] = {}

    @property
    def count(self) -> int:
        """Snapshots so far."""
        return self.means.count

    @property
    def needed(self) -> int:
        """Snapshots that the average takes at least."""
        return 1

    def check(self, posterior: Posterior) -> None:
        """Refuse a posterior that this cannot average."""

    def update(self, net: BayesianModule) -> None:
        """Take a snapshot of `net`."""
        self.means.add(net.posterior.mean)
        for name, parameter in _others(net).items():
            self.others.setdefault(name, RunningMean()).add(parameter)

    def posterior(self, last: Posterior) -> Posterior:
        """The averaged posterior, given the last iterate's."""
        average = copy.deepcopy(last)
        with torch.no_grad():
            average.mean.copy_(self.means.mean)
        return average

    def network(self, net: BayesianModule) -> BayesianModule:
        """A copy of `net` with the averaged posterior and deterministic weights."""
        copied = copy.deepcopy(net)
        copied.zero_grad()
        copied.posterior = self.posterior(copied.posterior)
        self._write_others(copied)
        return copied

    @torch.no_grad()
    def restart(self, net: BayesianModule) -> None:
        """Move the iterate to the average."""
        net.posterior.mean.copy_(self.means.mean)
        self._write_others(net)

    @torch.no_grad()
    def _write_others(self, net: BayesianModule) -> None:
        for name, parameter in _others(net).items():
            parameter.copy_(self.others[name].mean)

    def state(self) -> dict[str, Any]:
        """What a checkpoint must keep."""
        return {"means": self.means.state(), "others": {k: v.state() for k, v in self.others.items()}}

    def restore(self, state: dict[str, Any]) -> None:
        """The inverse of `state`."""
        self.means.restore(state["means"])
        for name, kept in state["others"].items():
            self.others[name] = RunningMean()
            self.others[name].restore(kept)


def _others(net: BayesianModule) -> dict[str, Tensor]:
    """What is trained beside the posterior."""
    known = {id(p) for p in net.posterior.parameters()}
    return {name: p for name, p in net.named_parameters() if p.requires_grad and id(p) not in known}
