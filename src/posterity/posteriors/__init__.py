"""Variational posteriors: distributions over the flat weight vector."""

from posterity.posteriors.low_rank import LowRank
from posterity.posteriors.mean_field import MeanField, rho_of
from posterity.posteriors.point import Point
from posterity.posteriors.posterior import Posterior
from posterity.posteriors.samples import Samples

POSTERIORS: dict[str, type[Posterior]] = {
    posterior.kind: posterior for posterior in (MeanField, Point, LowRank, Samples)
}

__all__ = ["POSTERIORS", "LowRank", "MeanField", "Point", "Posterior", "Samples", "rho_of"]
