"""Variational posteriors: distributions over the flat weight vector."""

from typing import Any

from posterity.core.errors import unknown_name
from posterity.core.scale import rho_of
from posterity.posteriors.full import Full
from posterity.posteriors.independent import IndependentGaussian
from posterity.posteriors.low_rank import LowRank
from posterity.posteriors.mean_field import MeanField
from posterity.posteriors.mixture import Mixture
from posterity.posteriors.point import Point
from posterity.posteriors.posterior import Posterior
from posterity.posteriors.samples import Samples
from posterity.posteriors.tied import Tied

POSTERIORS: dict[str, type[Posterior]] = {
    posterior.kind: posterior for posterior in (MeanField, Tied, Point, LowRank, Full, Samples, Mixture)
}


def posterior_named(kind: str) -> type[Posterior]:
    """The family of that name."""
    if kind not in POSTERIORS:
        raise unknown_name("posterior", kind, POSTERIORS)
    return POSTERIORS[kind]


def posterior_options(kind: str) -> dict[str, Any]:
    """Names and defaults of the options that a family takes when it starts."""
    return posterior_named(kind).start_options()


__all__ = [
    "POSTERIORS",
    "Full",
    "IndependentGaussian",
    "LowRank",
    "MeanField",
    "Mixture",
    "Point",
    "Posterior",
    "Samples",
    "Tied",
    "posterior_named",
    "posterior_options",
    "rho_of",
]
