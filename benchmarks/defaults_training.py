"""Plain PyTorch training for the baselines of `defaults.py`; none of it depends on a default of this library.

    loss = cross entropy of the batch,  or  mean squared error / (2 v)

Batches of 100 in an order that the seed decides, the last one as it is; Adam (0.9, 0.999) with the rate falling to 0 by
a cosine over all steps; a method can bring a loss and a schedule of its own. v is 1 for maximum likelihood, to whose
Adam it does not matter; where a prior stands beside the likelihood it is the mean squared error of the epoch before,
the likelihood's best noise. With the prior N(0, s^2), s^2 = 2 / n_in (Kaiming), of MAP the loss gains
sum w^2 / (2 s^2 n): a weight decay of n_in / (2 n) in Adam's gradient.

After the training the noise of a regression is the root mean square of the training residuals of the predictive's mean.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from defaults_tasks import BATCH, SAMPLES, Problem, Task
from posterity.core.randomness import derive, generator
from posterity.data import Dataset
from posterity.experiments.build import build_module
from posterity.likelihoods import Prediction, RealPrediction
from posterity.likelihoods.classes import predict_classes
from posterity.optim import Muon

LEAST_VARIANCE = 1e-6  # of standardised targets that a network meets exactly
ROWS = 1000  # predicted at a time
DROPOUT = {"tables": 0.05, "images": 0.2}
BLOCK_DROPOUT = 0.1  # of a network of blocks, whose many layers add up
IVON = {"lr": 0.1, "hess_init": 1.0, "beta1": 0.9, "beta2": 0.99999, "weight_decay": 1e-4, "mc_samples": 1}


@dataclass(frozen=True)
class Network:
    """A trained network and the seconds that it took; `draw` opens the context in which a pass is random."""

    model: nn.Module
    seconds: float
    draw: Callable[[], Any] | None = None


def initial(task: Task, train: Dataset, member: int) -> nn.Module:
    """The task's network with PyTorch's own initial weights, which `member` alone decides."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derive(member, "initial weights"))
        model = build_module(task.run(0, task.epochs), train.input_shape, train.num_outputs)
    convolutional = any(isinstance(layer, nn.Conv2d) for layer in model.modules())
    return stored_as(model, torch.channels_last) if convolutional else model


def stored_as(model: nn.Module, memory_format: torch.memory_format) -> nn.Module:
    """`model` with its convolutions' weights in this order."""
    moved: nn.Module = model.to(memory_format=memory_format)  # type: ignore[call-overload]  # not in its stubs
    return moved


def with_dropout(model: nn.Module, images: bool) -> nn.Module:
    """Dropout after each hidden activation of a sequential network; behind the pooling of a convolution.

    A network of blocks has it before each convolution and linear layer but the first.
    """
    if any(list(layer.children()) for layer in model.children()):
        return _blocks_with_dropout(model)
    p, layers = DROPOUT["images" if images else "tables"], list(model.children())
    changed: list[nn.Module] = []
    for layer, following in zip(layers, [*layers[1:], None], strict=True):
        changed.append(layer)
        if isinstance(layer, nn.MaxPool2d) or (isinstance(layer, nn.ReLU) and not isinstance(following, nn.MaxPool2d)):
            changed.append(nn.Dropout(p))
    return nn.Sequential(*changed)


def _blocks_with_dropout(model: nn.Module) -> nn.Module:
    places = [(parent, name, layer) for parent in model.modules() for name, layer in parent.named_children()]
    weighted = [place for place in places if isinstance(place[2], nn.Conv2d | nn.Linear)]
    for parent, name, layer in weighted[1:]:
        setattr(parent, name, nn.Sequential(nn.Dropout(BLOCK_DROPOUT), layer))
    return model


def adam(model: nn.Module, rate: float, num_data: int | None = None) -> torch.optim.Optimizer:
    """Adam; with `num_data` the gradient of the Kaiming prior's -log density / n, too."""
    groups: list[dict[str, Any]] = []
    for layer in model.modules():
        own = list(layer.parameters(recurse=False))
        if own:  # a bias has the inputs of its layer
            decay = 0.0 if num_data is None else own[0][0].numel() / (2 * num_data)
            groups.append({"params": own, "weight_decay": decay})
    return torch.optim.Adam(groups, lr=rate, betas=(0.9, 0.999), eps=1e-8, fused=True)


def muon(model: nn.Module, rate: float) -> torch.optim.Optimizer:
    """The optimiser of our means, of which this library's fit has the same settings by default."""
    return Muon(model.parameters(), lr=rate, lr_sgd=0.5, batch_size=BATCH, betas=(0.95, 0.999), most_side=128)


def cosine(done: int, total: int) -> float:
    """The factor on the rate after so many of all steps."""
    return 0.5 * (1 + math.cos(math.pi * done / total))


def fit(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    train: Dataset,
    *,
    epochs: int,
    seed: int,
    follow: bool = False,
    loss_of: Callable[[Tensor, Tensor], Tensor] | None = None,
    schedule: Callable[[int, int], float] = cosine,
    after: Callable[[int, int], None] | None = None,
) -> float:
    """Train `model` and give the seconds; with `follow` the noise of a regression follows its residuals.

    `loss_of(x, y)` is of classes, instead of the cross entropy; `after(steps done, steps in all)` follows each step.
    """
    begun, rate = time.perf_counter(), optimizer.param_groups[0]["lr"]
    total, variance = epochs * math.ceil(len(train) / BATCH), 1.0
    drawn = getattr(optimizer, "sampled_params", None)  # IVON's
    regression = train.task == "regression"
    model.train()
    for epoch in range(epochs):
        squares = 0.0
        for step, (x, y) in enumerate(_batches(train, generator(seed, f"batches of epoch {epoch}"))):
            done = epoch * math.ceil(len(train) / BATCH) + step
            for group in optimizer.param_groups:
                group["lr"] = rate * schedule(done, total)
            with nullcontext() if drawn is None else drawn(train=True):
                optimizer.zero_grad()
                if regression:
                    loss = F.mse_loss(model(x), y) / (2 * variance)
                else:
                    loss = F.cross_entropy(model(x), y) if loss_of is None else loss_of(x, y)
                torch.autograd.backward(loss)
            optimizer.step()
            if after is not None:
                after(done + 1, total)
            if follow and regression:
                squares += loss.item() * 2 * variance * len(x) / len(train)
        if follow and regression:
            variance = max(squares, LEAST_VARIANCE)
    model.eval()
    return time.perf_counter() - begun


def _batches(train: Dataset, order: torch.Generator) -> Iterator[tuple[Tensor, Tensor]]:
    images = train.x.dim() == 4
    for rows in torch.randperm(len(train), generator=order).split(BATCH):
        x = train.x[rows]
        yield x.contiguous(memory_format=torch.channels_last) if images else x, train.y[rows]


@torch.no_grad()
def outputs(model: nn.Module, x: Tensor) -> Tensor:
    """(n, k), some rows at a time."""
    return torch.cat([model(part) for part in x.split(ROWS)])


def sampled_outputs(network: Network, x: Tensor, seed: int) -> Tensor:
    """(S, n, k): one pass without `draw`, SAMPLES of them with it, the same for the same seed."""
    if network.draw is None:
        return outputs(network.model, x)[None]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derive(seed, "passes"))
        passes = []
        for _ in range(SAMPLES):
            with network.draw():
                passes.append(outputs(network.model, x))
    return torch.stack(passes)


def residual_sd(values: Tensor, y: Tensor) -> Tensor:
    """Root mean square (k,) of the residuals of the mean of `values` (S, n, k)."""
    return (values.mean(0) - y).double().square().mean(0).clamp_min(LEAST_VARIANCE).sqrt().to(values.dtype)


def predictive(values: Tensor, noise: Tensor | None) -> Prediction:
    """The mixture of `values` (S, n, k): logits, or means with `noise` (k,) or (S, 1, k)."""
    if noise is None:
        return predict_classes(values.softmax(-1))
    sd = noise.expand_as(values).contiguous()
    return RealPrediction(values.mean(0), sd.square().mean(0).sqrt(), values.std(0, correction=0), values, sd)


def noise_of(network: Network, at: Problem, seed: int, train: Dataset | None = None) -> Tensor | None:
    """The noise (k,) of a regression, from the residuals on the training data; None for classes."""
    data = train or at.train
    return residual_sd(sampled_outputs(network, data.x, seed), data.y) if at.regression else None
