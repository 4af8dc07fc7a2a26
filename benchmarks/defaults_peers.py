"""Two libraries of variational inference as methods of `defaults.py`, for classes: the network is converted by them.

    loss = cross entropy of the batch + KL / divisor,   one weight sample,   Adam at 1e-3

Loss and conversion are those of `peers.py`. torch_blue's quick start has the number of data for a divisor, and scales
the whole loss by it, which Adam does not see. bayesian-torch's readme has the size of a batch; its KL is a mean within
each tensor, so that this is nearer to the ELBO than the number of data would be. As all others here they have batches
of 100, the cosine schedule, a fused optimiser, channels-last convolutions, and at test as many weight samples as ours.

torch_blue's own start has sds as large as its weights, 1 / sqrt(n_in): after an epoch of MNIST, LeNet-5 still guesses.
Its options keep the network's initial weights and take another sd: START, which is about that of bayesian-torch.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn

import peers
from defaults_baselines import Cell, Fitted
from defaults_tasks import BATCH, SAMPLES
from defaults_training import ROWS, adam, fit, initial, predictive
from peers import LEARNING_RATE, Elbo
from posterity.core.randomness import derive
from posterity.likelihoods import Prediction

START = 0.05

Convert = Callable[[nn.Module, int], Elbo]


def converted(cell: Cell, convert: Convert, *, divisor: int, rows: int) -> Fitted:
    """Fit the network that `convert` makes; `rows` are predicted at a time."""
    train = cell.problem.train
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(cell.member)
        elbo = convert(initial(cell.task, train, cell.member), divisor)
        optimizer = adam(elbo.model, LEARNING_RATE)
        seconds = fit(elbo.model, optimizer, train, epochs=cell.epochs, seed=cell.member, loss_of=elbo.loss)

    @torch.no_grad()
    def predict(x: Tensor) -> Prediction:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(derive(cell.seed, "passes"))
            values = torch.cat([elbo.logits(part, SAMPLES) for part in x.split(rows)], dim=1)
        return predictive(values, None)

    return Fitted(predict, seconds, {"rate": LEARNING_RATE, "divisor": divisor})


def bayesian_torch(cell: Cell) -> Fitted:
    convert = partial(peers.bayesian_torch, kind="Reparameterization")
    return converted(cell, convert, divisor=BATCH, rows=ROWS)


def torch_blue(cell: Cell) -> Fitted:
    convert = partial(peers.torch_blue, analytical=False, sd=START)
    # It holds all samples of a pass at once.
    return converted(cell, convert, divisor=len(cell.problem.train), rows=BATCH)
