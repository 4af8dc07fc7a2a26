"""Variational posteriors: distributions over the flat weight vector."""

from typing import Any

from posterity.core.errors import UsageError
from posterity.core.registry import Registry
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


def _taken(name: str, family: Any) -> type[Posterior]:
    if not (isinstance(family, type) and issubclass(family, Posterior) and family.kind == name):
        raise UsageError(
            f"the posterior '{name}' must be a subclass of Posterior with that name for kind, not {family!r}"
        )
    return family


OURS = (MeanField, Tied, Point, LowRank, Full, Samples, Mixture)
POSTERIORS = Registry[type[Posterior]]("posterior", "posteriors", {one.kind: one for one in OURS}, _taken)


def posterior_named(kind: str) -> type[Posterior]:
    """The family of that name."""
    return POSTERIORS.named(kind)


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
