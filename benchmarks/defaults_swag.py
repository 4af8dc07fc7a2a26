"""SWAG: a Gaussian around the average of SGD's iterates, from their squares and their last deviations [1].

    mean   <- (n mean + w) / (n + 1)          after snapshot w, n = 0, 1, ... before it; likewise square of w^2
    D       = the last K deviations w - mean, each from the mean with that snapshot
    v       = max(square - mean^2, 0)
    sample  = mean + sqrt(v / 2) z + D u / sqrt(2 (K - 1)),     z, u standard normal; without D where K < 2

Limit: snapshots that are all the same give samples that are the mean. Batch-norm statistics are renewed for each sample
with a tenth of the training data, which counts as training: a sample is kept with them, and predicts from then on.

SGD with momentum; the rate is constant, falls linearly between 50 and 90 % of the first half, and in the second is a
tenth of what it was. So far this is the authors' script for CIFAR-10. For its first rate of 0.1 there is the best of
three by a held-out tenth, as for a plain network, and for its snapshots, one an epoch, 20 in the second half.

[1] Maddox et al., A simple baseline for Bayesian uncertainty in deep learning, 2019.
"""

from __future__ import annotations

import math
import time
from collections import deque

import torch
from torch import Tensor, nn

from defaults_baselines import Cell, Fitted, best_rate, held_nll, nine_tenths
from defaults_tasks import BATCH
from defaults_training import fit, initial, outputs, predictive
from posterity.core.randomness import generator
from posterity.data import Dataset
from posterity.likelihoods import Prediction

TRIALS = "swag-"  # the name that those of its rates are kept by
RATES = (0.01, 0.03, 0.1)
MOMENTUM, DECAY = 0.9, 3e-4
LAST = 0.1  # of the first rate
SNAPSHOTS = 20
SAMPLES = 30
RENEWED_WITH = 0.1  # of the training data, as the authors have it for ImageNet


class Swag:
    """Running moments (N,) of snapshots, and the deviations of the last ones."""

    def __init__(self, rank: int = SNAPSHOTS) -> None:
        self.count = 0
        self.mean = self.square = torch.zeros(())
        self.deviations: deque[Tensor] = deque(maxlen=rank)

    def collect(self, weights: Tensor) -> None:
        """Take a snapshot (N,)."""
        self.mean = (self.count * self.mean + weights) / (self.count + 1)
        self.square = (self.count * self.square + weights.square()) / (self.count + 1)
        self.count += 1
        self.deviations.append(weights - self.mean)

    def sample(self, noise: torch.Generator) -> Tensor:
        """Weights (N,)."""
        sd = (self.square - self.mean.square()).clamp_min(0).sqrt()
        drawn = self.mean + sd * math.sqrt(0.5) * torch.randn(sd.shape, generator=noise)
        rank = len(self.deviations)
        if rank < 2:
            return drawn
        factors = torch.randn(rank, generator=noise) / math.sqrt(2 * (rank - 1))
        return drawn + factors @ torch.stack(list(self.deviations))


def schedule(done: int, total: int) -> float:
    """The factor on the rate: 1, a line, LAST."""
    share = done / max(total // 2, 1)
    return min(1.0, max(LAST, 1 - (1 - LAST) * (share - 0.5) / 0.4))


def due(done: int, total: int) -> bool:
    """Whether a snapshot follows this step: at even distances in the second half, the last one at the end."""
    start = total // 2
    now, before = (SNAPSHOTS * max(step - start, 0) // (total - start) for step in (done, done - 1))
    return now > before


def weights_of(model: nn.Module) -> Tensor:
    """All parameters as a vector (N,)."""
    return torch.cat([each.detach().reshape(-1) for each in model.parameters()])


@torch.no_grad()
def put(model: nn.Module, weights: Tensor) -> None:
    """The inverse of `weights_of`; each parameter keeps its order in memory."""
    parameters = list(model.parameters())
    for own, part in zip(parameters, weights.split([each.numel() for each in parameters]), strict=True):
        own.copy_(part.view(own.shape))


@torch.no_grad()
def renew(model: nn.Module, x: Tensor) -> None:
    """Batch-norm statistics as averages over the batches of `x`."""
    norms = [layer for layer in model.modules() if isinstance(layer, nn.BatchNorm2d)]
    if not norms:
        return
    for layer in norms:
        layer.reset_running_stats()
        layer.momentum = None  # a plain average
    model.train()
    for part in x.split(BATCH):
        model(part)
    model.eval()


def trained(cell: Cell, rate: float, train: Dataset) -> tuple[nn.Module, list[dict[str, Tensor]], float]:
    """A network, the states of its samples, the seconds of both."""
    model, moments = initial(cell.task, train, cell.member), Swag()
    optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=MOMENTUM, weight_decay=DECAY, fused=True)

    def after(done: int, total: int) -> None:
        if due(done, total):
            moments.collect(weights_of(model))

    seconds = fit(model, optimizer, train, epochs=cell.epochs, seed=cell.member, schedule=schedule, after=after)
    begun = time.perf_counter()
    if not moments.count:  # of no epochs
        moments.collect(weights_of(model))
    noise = generator(cell.member, "samples of SWAG")
    rows = torch.randperm(len(train), generator=noise)[: math.ceil(RENEWED_WITH * len(train))]
    states = []
    for _ in range(SAMPLES):
        put(model, moments.sample(noise))
        renew(model, train.x[rows])
        states.append({name: value.clone() for name, value in model.state_dict().items()})
    return model, states, seconds + time.perf_counter() - begun


def mixture(model: nn.Module, states: list[dict[str, Tensor]], x: Tensor) -> Prediction:
    """The predictive at `x` of the network in all these states."""
    passes = []
    for state in states:
        model.load_state_dict(state)
        passes.append(outputs(model, x))
    return predictive(torch.stack(passes), None)


def _trial(first: Cell, rate: float) -> dict[str, float]:
    train, held = nine_tenths(first)
    model, states, seconds = trained(first, rate, train)
    return {"nll": held_nll(mixture(model, states, held.x), held), "seconds": seconds}


def swag(cell: Cell) -> Fitted:
    rate = best_rate(cell, RATES, _trial, name=TRIALS)
    model, states, seconds = trained(cell, rate, cell.problem.train)
    return Fitted(lambda x: mixture(model, states, x), seconds, {"rate": rate})
