"""Standardised inside: the network trains on data of mean 0 and sd 1, takes raw inputs and answers in raw units.

The statistics are of the training data, and stay those of the network: training goes on with the same. Targets are
standardised where the likelihood is one of real numbers, and left alone where they are classes or counts.
"""

from __future__ import annotations

from dataclasses import replace

from posterity.bayesian import BayesianModule
from posterity.core import inputs
from posterity.core.errors import UsageError
from posterity.data import Dataset, Standardisation
from posterity.likelihoods import Likelihood
from posterity.training.fitting_data import Data, as_raw


def standardisation_of(train: Data, net: BayesianModule, likelihood: Likelihood | None) -> Standardisation:
    """That of the network, or of what it is to be trained on."""
    if net.standardisation is not None:
        return net.standardisation
    given = likelihood or net.likelihood
    if not isinstance(train, (Dataset, tuple, list)):
        raise UsageError(f"standardise needs data in memory, a Dataset or a pair (x, y), not {type(train).__name__}")
    data = as_raw(train, net, given)
    if inputs.several(data.x):
        raise UsageError("standardise is for one input; standardise several before they are given")
    scale = Standardisation.of(data)
    if given is None or given.of_reals:
        return scale
    unit = Standardisation.identity(data)
    return replace(scale, y_mean=unit.y_mean, y_sd=unit.y_sd)


def standardised(data: Data, scale: Standardisation, net: BayesianModule, likelihood: Likelihood | None) -> Dataset:
    """`data` in the units that the network is trained in."""
    return scale.apply(as_raw(data, net, likelihood or net.likelihood)).to(net.posterior.mean.dtype)
