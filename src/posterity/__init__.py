"""Bayesian neural networks by variational inference.

net = posterity.bayesian(model)             any nn.Module
posterity.fit(net, (x, y), epochs=20)
net.predict(x).epistemic
"""

from posterity.bayesian import BayesianModule, bayesian
from posterity.core.errors import PosterityError, UsageError
from posterity.data import Dataset, Standardisation
from posterity.likelihoods import Bernoulli, Categorical, GaussianNoise, Prediction
from posterity.objectives import (
    GradientVariance,
    Loss,
    MovingBaseline,
    gradient_variance,
    kl_divergence,
    kl_weights,
    negative_elbo,
)
from posterity.posteriors import MeanField, Point
from posterity.priors import Gaussian
from posterity.saving import load, save
from posterity.training import Callback, FitResult, RangeTest, fit, range_test

__version__ = "0.1.0"

__all__ = [
    "BayesianModule",
    "Bernoulli",
    "Callback",
    "Categorical",
    "Dataset",
    "FitResult",
    "Gaussian",
    "GaussianNoise",
    "GradientVariance",
    "Loss",
    "MeanField",
    "MovingBaseline",
    "Point",
    "PosterityError",
    "Prediction",
    "RangeTest",
    "Standardisation",
    "UsageError",
    "bayesian",
    "fit",
    "gradient_variance",
    "kl_divergence",
    "kl_weights",
    "load",
    "negative_elbo",
    "range_test",
    "save",
]
