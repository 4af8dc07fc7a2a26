"""The names that users import from `posterity`, which imports this module when the first of them is used."""

from typing import TYPE_CHECKING, Any

from posterity.bayesian import BayesianModule, bayesian
from posterity.core.errors import PosterityError, UsageError
from posterity.data import Dataset, LoaderData, Standardisation
from posterity.ensemble import ensemble
from posterity.extending import (
    register_dataset,
    register_model,
    register_optimizer,
    register_posterior,
    register_prior,
)
from posterity.integrations import TensorBoard, export, exported
from posterity.laplace import laplace
from posterity.likelihoods import (
    Bernoulli,
    Categorical,
    ClassPrediction,
    CountPrediction,
    GaussianNoise,
    Likelihood,
    MultiLabel,
    MultiLabelPrediction,
    NegativeBinomial,
    Ordinal,
    Poisson,
    Prediction,
    RealPrediction,
    StudentTNoise,
    register_likelihood,
)
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
from posterity.prediction import Predictor
from posterity.priors import FromPenalty, Gaussian, Laplace, Parts, ScaleMixture, StudentT, Tabulated, penalty_factor
from posterity.priors.equivalence import Equivalence, penalty_of, prior_of
from posterity.storage import load, load_predictor, save, save_predictor
from posterity.training import (
    Callback,
    FitResult,
    ProlongedWarning,
    RangeTest,
    TrainingWarning,
    fit,
    process_group,
    range_test,
)

if TYPE_CHECKING:
    from posterity.experiments.results import Results
    from posterity.experiments.study import Study
    from posterity.experiments.sweep import sweep
    from posterity.experiments.trained import load_run
    from posterity.integrations.sklearn import BayesianClassifier, BayesianRegressor

__all__ = [
    "BayesianClassifier",
    "BayesianModule",
    "BayesianRegressor",
    "Bernoulli",
    "Callback",
    "Categorical",
    "ClassPrediction",
    "CountPrediction",
    "Dataset",
    "Equivalence",
    "FitResult",
    "FromPenalty",
    "Full",
    "Gaussian",
    "GaussianNoise",
    "GradientVariance",
    "Laplace",
    "Likelihood",
    "LoaderData",
    "Loss",
    "LowRank",
    "MeanField",
    "Mixture",
    "MovingBaseline",
    "MultiLabel",
    "MultiLabelPrediction",
    "NegativeBinomial",
    "Ordinal",
    "Parts",
    "Point",
    "Poisson",
    "PosterityError",
    "Prediction",
    "Predictor",
    "ProlongedWarning",
    "RangeTest",
    "RealPrediction",
    "Results",
    "Samples",
    "ScaleMixture",
    "Standardisation",
    "StudentT",
    "StudentTNoise",
    "Study",
    "Tabulated",
    "TensorBoard",
    "Tied",
    "TrainingWarning",
    "UsageError",
    "auto",
    "bayesian",
    "ensemble",
    "export",
    "exported",
    "fit",
    "gradient_variance",
    "kl_divergence",
    "kl_weights",
    "laplace",
    "load",
    "load_predictor",
    "load_run",
    "negative_elbo",
    "penalty_factor",
    "penalty_of",
    "per_neuron",
    "per_weight",
    "prior_of",
    "process_group",
    "range_test",
    "register_dataset",
    "register_likelihood",
    "register_model",
    "register_optimizer",
    "register_posterior",
    "register_prior",
    "save",
    "save_predictor",
    "sweep",
    "warm_up",
]

_LATER = {  # by module: not needed to train
    "BayesianClassifier": "integrations.sklearn",
    "BayesianRegressor": "integrations.sklearn",
    "Results": "experiments.results",
    "Study": "experiments.study",
    "load_run": "experiments.trained",
    "sweep": "experiments.sweep",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'posterity' has no attribute '{name}'")
    from importlib import import_module

    return getattr(import_module(f"posterity.{_LATER[name]}"), name)
