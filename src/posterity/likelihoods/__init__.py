"""Observation models."""

from __future__ import annotations

from typing import Any

from posterity.core.errors import unknown_name
from posterity.likelihoods.categorical import Bernoulli, Categorical
from posterity.likelihoods.gaussian import GaussianNoise
from posterity.likelihoods.likelihood import Likelihood, Prediction

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
    "GaussianNoise",
    "Likelihood",
    "Prediction",
    "build_likelihood",
]
