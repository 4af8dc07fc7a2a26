"""Collected: not an average but the snapshots themselves, a `samples` posterior.

    q = (1/K) sum_k delta(w - w_k),    w_k the means at the kth snapshot

What Langevin dynamics draws (optim.sgld): burn-in is the part of the training before the first snapshot, thinning the
steps between two. Deterministic weights are averaged, as in SWA.

Limits: one snapshot is the iterate itself; the mean over many is SWA's.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from posterity.averaging.swa import SWA
from posterity.bayesian import BayesianModule
from posterity.posteriors import Posterior, Samples


class Collected(SWA):
    """Keeps the means of every snapshot."""

    kind = "samples"
    restarts = False

    def __init__(self) -> None:
        super().__init__()
        self.snapshots: list[Tensor] = []

    def update(self, net: BayesianModule) -> None:
        """Take a snapshot of `net`."""
        super().update(net)
        self.snapshots.append(net.posterior.mean.detach().clone())

    def posterior(self, last: Posterior) -> Posterior:
        """All snapshots, each as likely as the others."""
        return Samples(torch.stack(self.snapshots))

    def state(self) -> dict[str, Any]:
        """What a checkpoint must keep."""
        return {**super().state(), "snapshots": list(self.snapshots)}

    def restore(self, state: dict[str, Any]) -> None:
        """The inverse of `state`."""
        super().restore(state)
        self.snapshots = list(state["snapshots"])
