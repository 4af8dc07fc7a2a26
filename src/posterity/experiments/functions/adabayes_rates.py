"""AdaBayes' rates in a network that is trained, beside Adam's and the filter's fixed point        (SPEC 13, A1).

With g the gradient of the summed loss, s2 = lr_sgd / batch size and <g^2> Adam's moving average, kept beside:
    x       eta / sqrt(<g^2>), the rate that Adam would have
    rate    s2_post, the one that AdaBayes has
    steady  1 / (1/(2 s2) + sqrt(1/(4 s2^2) + 1/x^2)), the fixed point                [source 001, eq. 20]

Limits (source 001, figure 3): x >> s2 gives SGD's rate s2,  x << s2 gives Adam's rate x.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from posterity.core.randomness import derive, generator
from posterity.data import Batches
from posterity.data.augmentation import AUGMENTATIONS
from posterity.experiments.build import build_data, build_module
from posterity.experiments.run import Run
from posterity.optim import AdaBayes
from posterity.optim.adabayes import steady_precision
from posterity.optim.rates import effective_rates

BETA2 = 0.999
REACH, BINS_A_DECADE = 4, 4  # bins of log10(x / s2), the same in every network
FEWEST = 50  # weights that make a bin count
FAR = 10.0  # x / s2, or its inverse, from where on a limit is reached


def adabayes_rates(
    *,
    dataset: str = "digits",
    rows: int | None = None,
    model: str = "cnn",
    width: int = 8,
    steps: int = 1000,
    batch_size: int = 128,
    lr: float = 1e-3,
    lr_sgd: float = 0.1,
    decay: float = 5e-5,
    augmentation: str | None = None,
    seed: int = 0,
) -> dict[str, Any]:
    """Train a network for `steps` and compare its weights' rates; the history has a record a bin of log10(x / s2).

    bias      largest |log10(median of rate / steady)| over the bins that have FEWEST weights
    spread    mean over these bins of the log10 between the deciles of rate / steady
    sgd       median of rate / s2 where x > FAR s2;    adam    median of rate / x where x < s2 / FAR
    share_*   the weights that these are of, as shares of those with a gradient
    """
    run = Run.of(
        dataset=dataset, train_rows=rows, model=model, model_options={"width": width}, posterior="point", seed=seed
    )
    train = build_data(run).train
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derive(seed, "initial weights"))
        network = build_module(run, train.input_shape, train.num_outputs)
    weights = [p for p in network.parameters() if p.requires_grad]
    optimizer = AdaBayes(weights, lr=lr, lr_sgd=lr_sgd, batch_size=batch_size, weight_decay=decay)
    squares = [torch.zeros_like(p) for p in weights]
    random = generator(seed, "augmentation")
    batches = Batches(len(train), batch_size, generator(seed, "batches"), drop_last=True)
    done = 0
    while done < steps:
        for index in batches:
            x = train.x[index]
            x = x if augmentation is None else AUGMENTATIONS[augmentation](x, random)
            loss = cross_entropy(network(x), train.y[index])
            optimizer.zero_grad()
            loss.backward()
            for square, p in zip(squares, weights, strict=True):
                assert p.grad is not None
                square.lerp_((batch_size * p.grad).square(), 1 - BETA2)
            optimizer.step()
            done += 1
            if done == steps:
                break
    # Its rates are those of a mean loss's gradient: s2_post times the batch size.
    rate = torch.cat([_rates(optimizer, p).flatten() for p in weights]).double() / batch_size
    mean_square = torch.cat([s.flatten() for s in squares]).double() / (1 - BETA2**steps)
    return {"loss": loss.item(), **compare_rates(rate, mean_square, eta=lr, s2=lr_sgd / batch_size)}


def compare_rates(rate: Tensor, mean_square: Tensor, *, eta: float, s2: float) -> dict[str, Any]:
    """The numbers and the history, of each weight's `rate` and `mean_square` gradient (N,); see `adabayes_rates`."""
    moved = mean_square > 0
    rate, mean_square = rate[moved], mean_square[moved]
    place = (eta / mean_square.sqrt() / s2).log10()
    steady = 1 / steady_precision(mean_square, eta, s2)
    ratio = (rate / steady).log10()
    low, high = place > math.log10(FAR), place < -math.log10(FAR)
    number = ((place + REACH) * BINS_A_DECADE).floor().clamp(0, 2 * REACH * BINS_A_DECADE - 1).long()
    history = []
    for bin_ in number.unique().tolist():
        inside = number == bin_
        if int(inside.sum()) < FEWEST:
            continue
        tenth, middle, ninth = _quantiles(ratio[inside])
        lower, centre, upper = _quantiles(rate[inside].log10())
        history.append({
            "epoch": bin_ + 1, "place": float(place[inside].median()), "weights": int(inside.sum()),
            "rate": centre, "rate_low": lower, "rate_high": upper, "bias": middle, "spread": ninth - tenth,
        })  # fmt: skip
    found = {
        "bias": max((abs(record["bias"]) for record in history), default=math.nan),
        "spread": sum(record["spread"] for record in history) / len(history) if history else math.nan,
        "share_sgd": float(low.double().mean()),
        "share_adam": float(high.double().mean()),
        "share_moved": float(moved.double().mean()),
        "s2": s2,
    }
    if low.any():
        found["sgd"] = float((rate / s2)[low].median())
    if high.any():
        found["adam"] = float((rate * mean_square.sqrt() / eta)[high].median())
    return {**found, "history": history}


def _rates(optimizer: AdaBayes, p: Tensor) -> Tensor:
    rates = effective_rates(optimizer, p)
    assert rates is not None
    return rates


def _quantiles(values: Tensor) -> tuple[float, float, float]:
    tenth, middle, ninth = np.quantile(values.numpy(), (0.1, 0.5, 0.9)).tolist()  # torch's takes 2^24 values at most
    return tenth, middle, ninth
