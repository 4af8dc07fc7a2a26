"""Batch-norm statistics of a network whose weights were not trained but averaged.

    running statistic = mean over the batches of the batch's statistic, each under a fresh draw of the weights

One pass over the data, as in torch.optim.swa_utils.update_bn, in the mode that training gathers them in (dropout on);
norms in a frozen part keep theirs. For a point posterior all batches see the same weights. Batches are shuffled and of
nearly equal size, so that their mean is the data's, and none has a single row, of which there is no variance.
"""

from __future__ import annotations

import math

import torch
from torch.nn.modules.batchnorm import _BatchNorm

from posterity.bayesian import BayesianModule
from posterity.core import inputs
from posterity.core.inputs import Inputs
from posterity.core.randomness import NoiseSource, derive


@torch.no_grad()
def reestimate_batch_norm(net: BayesianModule, x: Inputs, *, batch_size: int, seed: int) -> None:
    """Set the running statistics of `net` from `x` (n, ...); a network that keeps none is left alone."""
    modes = [(module, module.training) for module in net.modules()]
    net.train()
    norms = [m for m in net.modules() if isinstance(m, _BatchNorm) and m.running_mean is not None and m.training]
    momenta = [norm.momentum for norm in norms]
    source = net.noise_source
    try:
        if norms:
            _gather(net, norms, x, batch_size, derive(seed, "batch norm"))
    finally:
        net.noise_source = source
        for norm, momentum in zip(norms, momenta, strict=True):
            norm.momentum = momentum
        for module, training in modes:
            module.training = training


def _gather(net: BayesianModule, norms: list[_BatchNorm], x: Inputs, batch_size: int, seed: int) -> None:
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None  # a cumulative mean
    net.noise_source = NoiseSource(seed)
    rows = inputs.count(x)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        order = torch.randperm(rows, device="cpu")  # data may lie sorted by class
        for index in order.tensor_split(max(1, min(math.ceil(rows / batch_size), rows // 2))):
            inputs.call(net, inputs.moved(inputs.take(x, index), net.posterior.mean))
