"""What a training would show on data that were left out, looked at while it goes on.

From the residuals r of rows of the training data at given weights, and their leverages h (training.leverage),

    e = r / (1 - h)                         the residual of a datum that was left out
    noise^2 = sum_n r^2 / sum_n (1 - h)     RSS / (n - degrees of freedom)                                      [1]
    density = max_c mean_n log t_v(e; scale c / sqrt(1 - h)),    v = DF

in units of the noise that the network has for the row. Heavy tails keep single rows from deciding; c / sqrt(1 - h) is
the noise and what the network does not know of the row. Noise of variance s^2 leaves residuals of variance s^2 (1 - h):
a network that learns its rows by heart has small ones and leverages near 1, and the noise is found all the same, where
the residuals' own mean square would fall to nothing. There is a pole at h = 1: LEAST_LEFT is divided by at least.
Limits: h -> 0, many data for a weight: e = r, noise^2 = mean r^2.

[1] MacKay, Bayesian interpolation, 1992.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from posterity.bayesian import BayesianModule
from posterity.core import inputs
from posterity.core.precision import wide
from posterity.core.randomness import generator
from posterity.data import Dataset
from posterity.likelihoods import GaussianNoise
from posterity.likelihoods.gaussian import mean_over_rows
from posterity.likelihoods.student_prediction import log_student
from posterity.training.leverage import MOST_WEIGHTS, leverages_at

DF = 4.0
LEAST_LEFT = 5e-3
ROUNDS = 20  # of the scale's fit, which moves by less than a hundredth then
ROWS = 1000  # that are looked at, at most, where leverages need not all of them


class LeftOut(NamedTuple):
    """The mean leverage, the noise's sd (k,), and the mean log density of a row, in the units of the targets."""

    leverage: float
    noise: Tensor
    density: float


@torch.no_grad()
def look(
    weights: Tensor, net: BayesianModule, train: Dataset, *, num_data: int, temperature: float, seed: int
) -> LeftOut:
    """The network with `weights` (N,); `train` are the data at hand, of `num_data` that are trained on."""
    likelihood = net.likelihood
    assert isinstance(likelihood, GaussianNoise)
    count = ROWS if net.num_weights <= MOST_WEIGHTS else len(train)
    rows = torch.randperm(len(train), generator=generator(seed, "left out"), device="cpu")[:count]
    x, y, weight = train.rows(rows).changed(lambda part: inputs.moved(part, net.posterior.mean))
    with net.hosted(net.layout.views(weights)) as model:
        mean, noise = likelihood.moments(inputs.call(model, x).unsqueeze(0))
    units = wide(noise[0])
    h = leverages_at(weights, net, x, units, weight, temperature=temperature, num_data=num_data)
    found = judged((wide(y) - wide(mean[0])) / units, 1 - h, weight)
    density = found.density - mean_over_rows(units.log(), weight).sum().item()
    return LeftOut(found.leverage, found.noise * mean_over_rows(units, weight), density)


def judged(residuals: Tensor, left: Tensor, weight: Tensor | None = None) -> LeftOut:
    """From residuals and 1 - leverages (n, k) of rows that count by `weight` (n,)."""
    left = left.clamp(LEAST_LEFT, 1.0)
    noise2 = mean_over_rows(residuals.square(), weight) / mean_over_rows(left, weight)
    squares = residuals.square() / left  # of e, in units of 1 / sqrt(1 - h)
    scale2 = noise2.clamp_min(torch.finfo(noise2.dtype).tiny)
    for _ in range(ROUNDS):
        shares = (DF + 1) / (DF + squares / scale2)
        scale2 = mean_over_rows(shares * squares, weight).clamp_min(torch.finfo(noise2.dtype).tiny)
    logs = log_student((squares / scale2).sqrt(), scale2.new_tensor(DF)) - 0.5 * (scale2 / left).log()
    density = mean_over_rows(logs, weight).sum()
    return LeftOut(1 - mean_over_rows(left, weight).mean().item(), noise2.sqrt(), density.item())
