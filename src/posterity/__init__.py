"""Bayesian neural networks by variational inference.

net = posterity.bayesian(model)             any nn.Module
posterity.fit(net, (x, y), epochs=20)
net.predict(x).epistemic
"""

from typing import TYPE_CHECKING, Any

from posterity.bayesian import BayesianModule, bayesian
from posterity.core.errors import PosterityError, UsageError
from posterity.data import Dataset, Standardisation
from posterity.ensemble import ensemble
from posterity.integrations import TensorBoard
from posterity.laplace import laplace
from posterity.likelihoods import Bernoulli, Categorical, ClassPrediction, GaussianNoise, Prediction, RealPrediction
from posterity.objectives import (
    GradientVariance,
    Loss,
    MovingBaseline,
    auto,
    gradient_variance,
    kl_divergence,
    kl_weights,
    negative_elbo,
    per_neuron,
    per_weight,
    warm_up,
)
from posterity.posteriors import Full, LowRank, MeanField, Mixture, Point, Samples, Tied
from posterity.priors import FromPenalty, Gaussian, Laplace, Parts, ScaleMixture, StudentT, Tabulated, penalty_factor
from posterity.priors.equivalence import Equivalence, penalty_of, prior_of
from posterity.storage import load, save
from posterity.training import Callback, FitResult, ProlongedWarning, RangeTest, fit, process_group, range_test

if TYPE_CHECKING:
    from posterity.experiments.results import Results
    from posterity.experiments.study import Study
    from posterity.experiments.sweep import sweep
    from posterity.integrations.sklearn import BayesianClassifier, BayesianRegressor

__version__ = "0.1.0"

__all__ = [
    "BayesianClassifier",
    "BayesianModule",
    "BayesianRegressor",
    "Bernoulli",
    "Callback",
    "Categorical",
    "ClassPrediction",
    "Dataset",
    "Equivalence",
    "FitResult",
    "FromPenalty",
    "Full",
    "Gaussian",
    "GaussianNoise",
    "GradientVariance",
    "Laplace",
    "Loss",
    "LowRank",
    "MeanField",
    "Mixture",
    "MovingBaseline",
    "Parts",
    "Point",
    "PosterityError",
    "Prediction",
    "ProlongedWarning",
    "RangeTest",
    "RealPrediction",
    "Results",
    "Samples",
    "ScaleMixture",
    "Standardisation",
    "StudentT",
    "Study",
    "Tabulated",
    "TensorBoard",
    "Tied",
    "UsageError",
    "auto",
    "bayesian",
    "ensemble",
    "fit",
    "gradient_variance",
    "kl_divergence",
    "kl_weights",
    "laplace",
    "load",
    "negative_elbo",
    "penalty_factor",
    "penalty_of",
    "per_neuron",
    "per_weight",
    "prior_of",
    "process_group",
    "range_test",
    "save",
    "sweep",
    "warm_up",
]

_LATER = {  # by module: not needed to train
    "BayesianClassifier": "integrations.sklearn",
    "BayesianRegressor": "integrations.sklearn",
    "Results": "experiments.results",
    "Study": "experiments.study",
    "sweep": "experiments.sweep",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'posterity' has no attribute '{name}'")
    from importlib import import_module

    return getattr(import_module(f"posterity.{_LATER[name]}"), name)
