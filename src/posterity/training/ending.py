"""What is left to do when the last step of a training was taken: the noise of new data, and a last look.

Noise that was fitted to the training's own residuals becomes that of new data (likelihoods.gaussian), of the network
and of the average of its iterates alike; then the spread of the network is compared with what the ELBO wants
(training.arrival). Both look at some rows of the training data, and draw noise of their own.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import torch

from posterity.bayesian import BayesianModule
from posterity.core import inputs
from posterity.core.randomness import derive, generator
from posterity.data import Dataset
from posterity.likelihoods import RealPrediction
from posterity.training.arrival import arrival_warnings, wanted_spread
from posterity.training.leverage import mean_leverage

SETTLED_ROWS = 2000  # of the training data that the noise of new data is judged by, at most


def end(
    nets: Sequence[BayesianModule], train: Dataset, *, num_data: int, temperature: float, seed: int
) -> dict[str, Any]:
    """Settle the noise of all `nets`; what was found of the first: noise, spread that the ELBO wants, warnings.

    `train` are the data at hand, of `num_data` that were trained on.
    """
    for net in nets:
        if temperature and net.posterior.random:
            _settle(net, train, num_data=num_data, temperature=temperature, seed=seed)
    first = nets[0]
    assert first.likelihood is not None
    found = {**first.likelihood.learnt(), "warnings": []}
    if temperature and first.posterior.random:
        wanted = wanted_spread(first, first.likelihood, train, num_data=num_data, temperature=temperature, seed=seed)
        found |= {"sd_wanted": wanted, "warnings": arrival_warnings(wanted)}
    return found


def cross_validated(net: BayesianModule, train: Dataset, *, num_data: int, temperature: float, seed: int) -> float:
    """The cross-validated log-likelihood of a datum, once the noise is settled; the network stays as it is."""
    assert net.likelihood is not None
    before = copy.deepcopy(dict(net.likelihood.state_dict()))
    score = _settle(net, train, num_data=num_data, temperature=temperature, seed=seed)
    net.likelihood.load_state_dict(before)
    return score


def _settle(net: BayesianModule, train: Dataset, *, num_data: int, temperature: float, seed: int) -> None:
    likelihood = net.likelihood
    if likelihood is None or not likelihood.settles:
        return
    rows = torch.randperm(len(train), generator=generator(seed, "settling/rows"), device="cpu")[:SETTLED_ROWS]
    x, y, weight = train.rows(rows).changed(lambda part: inputs.moved(part, net.posterior.mean))
    prediction = net.predictive(x, seed=derive(seed, "settling"))
    assert isinstance(prediction, RealPrediction)
    leverage = mean_leverage(net, prediction, x, weight, temperature=temperature, num_data=num_data)
    likelihood.settle(prediction, y, leverage, weight)
