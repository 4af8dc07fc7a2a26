"""Passes of a network under a rule, and the same pass again where a weight's uses disagreed."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from posterity.bayesian import BayesianModule
from posterity.estimators.interception import Interception, Rule
from posterity.estimators.weights import Parts, PassWeights


def random_outputs(
    net: BayesianModule, rule: Rule, *args: Any, means: Parts, sds: Parts, noise: Tensor | None, samples: int
) -> Tensor:
    """Outputs (S, ...) of `samples` passes under `rule`, differentiable in `means` and `sds`, flat parts by weight.

    `noise` (S, N) is standard normal, and needed by rules that perturb the weights.
    """
    rows: list[Tensor | None] = [None] * samples if noise is None else list(noise.view(samples, -1))
    return torch.cat([_pass(net, rule, args, means, sds, row) for row in rows])


def _pass(
    net: BayesianModule, rule: Rule, args: tuple[Any, ...], means: Parts, sds: Parts, noise: Tensor | None
) -> Tensor:
    several = net.several_uses
    while True:
        before = _Undo(net)
        weights = PassWeights(means, sds, net.layout, noise)
        mode = Interception(rule, weights, net.noise_source, several)
        views = dict(zip(net.layout.names, weights.samples, strict=True))
        with mode:
            outputs = net.outputs(*args, views=views)
        if not mode.conflicts:
            return outputs
        several |= mode.conflicts
        before.restore()


class _Undo:
    """All that a pass changes: generators and buffers (batch statistics)."""

    def __init__(self, net: BayesianModule) -> None:
        self.net = net
        self.noise, self.generator = net.noise_source.state(), torch.get_rng_state()
        self.buffers = [buffer.clone() for buffer in net.model.buffers()]

    def restore(self) -> None:
        """As if the pass had not been made."""
        self.net.noise_source.restore(self.noise)
        torch.set_rng_state(self.generator)
        with torch.no_grad():
            for buffer, kept in zip(self.net.model.buffers(), self.buffers, strict=True):
                buffer.copy_(kept)
