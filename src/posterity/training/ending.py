"""What is left to do when the last step of a training was taken: the noise of new data, and a last look.

The spread of the network is compared with what the ELBO wants (training.arrival), with the noise that was trained with;
then noise that was fitted to the training's own residuals becomes that of new data (likelihoods.gaussian), of the
network and of the average of its iterates alike. Both look at some rows of the training data, and draw noise of their
own.

A network that follows its own rows wherever they are (a mean leverage above BY_HEART, where 1 is all the way) has
learnt them by heart: its residuals say nothing of new data. That is warned of, and no density of left-out data given.
So is noise that varies with an input (training.varying_noise), where rows have no weights and the network does not
say the noise itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from posterity.bayesian import BayesianModule
from posterity.core import inputs
from posterity.core.randomness import derive, generator
from posterity.data import Dataset
from posterity.likelihoods import RealPrediction
from posterity.training.arrival import arrival_warnings, wanted_spread
from posterity.training.leverage import MOST_SAMPLED, MOST_WEIGHTS, leverages
from posterity.training.varying_noise import varying_noise

BY_HEART = 0.9
SETTLED_ROWS = 2000  # of the training data that the noise of new data is judged by, at most


def end(
    nets: Sequence[BayesianModule], train: Dataset, *, num_data: int, temperature: float, seed: int
) -> dict[str, Any]:
    """Settle the noise of all `nets`; what was found of the first: noise, spread that the ELBO wants, warnings.

    `train` are the data at hand, of `num_data` that were trained on. Where noise was settled, `leverage` is the mean
    over these data, and `cross_validated` their mean log density, each as if it had been left out, in the units of the
    training's targets.
    """
    first, found = nets[0], dict[str, Any](warnings=[])
    assert first.likelihood is not None
    if temperature and first.posterior.random:
        wanted = wanted_spread(first, first.likelihood, train, num_data=num_data, temperature=temperature, seed=seed)
        found = {"sd_wanted": wanted, "warnings": arrival_warnings(wanted)}
    for net in nets:
        if not (temperature and net.posterior.random):
            continue
        settled = _settle(net, train, num_data=num_data, temperature=temperature, seed=seed)
        if net is not first or settled is None:
            continue
        found["leverage"], density, varies = settled
        if found["leverage"] > BY_HEART:
            found["warnings"] = [_by_heart(found["leverage"])]  # longer training would not mend it
            continue
        found["warnings"] += varies
        if density is not None:
            found["cross_validated"] = density
    return {**first.likelihood.learnt(), **found}


def _by_heart(leverage: float) -> str:
    return (
        f"the network has learnt its own rows by heart (leverage {leverage:.3g} of 1): they do not show the noise of "
        "new data, and its intervals may be far too narrow or too wide. Give a temperature (0.03, 0.1) and compare on "
        "rows held out"
    )


def _settle(
    net: BayesianModule, train: Dataset, *, num_data: int, temperature: float, seed: int
) -> tuple[float, float | None, list[str]] | None:
    """The mean leverage, the density of data as if left out, and warnings; None where there is nothing to settle."""
    likelihood = net.likelihood
    if likelihood is None or not likelihood.settles:
        return None
    count = SETTLED_ROWS if net.num_weights <= MOST_WEIGHTS else MOST_SAMPLED
    rows = torch.randperm(len(train), generator=generator(seed, "settling/rows"), device="cpu")[:count]
    x, y, weight = train.rows(rows).changed(lambda part: inputs.moved(part, net.posterior.mean))
    prediction = net.predictive(x, seed=derive(seed, "settling"))
    assert isinstance(prediction, RealPrediction)
    assert prediction.samples is not None
    each = leverages(net, prediction, x, weight, temperature=temperature, num_data=num_data)
    counts = None if weight is None else weight * (num_data / len(train))  # weights of mean 1 are given
    density = likelihood.settle(prediction, y, each, counts)
    varies: list[str] = []
    if weight is None and isinstance(x, Tensor) and x.dim() == 2 and likelihood.num_outputs(y.shape[1]) == y.shape[1]:
        settled = likelihood.predict(prediction.samples)
        assert isinstance(settled, RealPrediction)
        names = () if train.columns is None else train.columns.features
        varies = varying_noise(settled, y, each, x, names)
    return each.mean().item(), density, varies
