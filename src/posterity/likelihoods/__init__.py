"""Observation models."""

from __future__ import annotations

from typing import Any

from posterity.core.errors import unknown_name
from posterity.likelihoods.categorical import Bernoulli, Categorical
from posterity.likelihoods.classes import ClassPrediction
from posterity.likelihoods.gaussian import GaussianNoise
from posterity.likelihoods.likelihood import Likelihood
from posterity.likelihoods.prediction import Prediction
from posterity.likelihoods.real import RealPrediction

LIKELIHOODS: dict[str, type[Likelihood]] = {c.kind: c for c in (Categorical, Bernoulli, GaussianNoise)}


def build_likelihood(kind: str, **options: Any) -> Likelihood:
    """A likelihood by its name."""
    if kind not in LIKELIHOODS:
        raise unknown_name("likelihood", kind, LIKELIHOODS)
    return LIKELIHOODS[kind](**options)


__all__ = [
    "LIKELIHOODS",
    "Bernoulli",
    "Categorical",
    "ClassPrediction",
    "GaussianNoise",
    "Likelihood",
    "Prediction",
    "RealPrediction",
    "build_likelihood",
]
