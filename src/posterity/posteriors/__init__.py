"""Variational posteriors: distributions over the flat weight vector."""

from posterity.posteriors.mean_field import MeanField, rho_of
from posterity.posteriors.point import Point
from posterity.posteriors.posterior import Posterior

__all__ = ["MeanField", "Point", "Posterior", "rho_of"]
