"""Priors over the flat weight vector."""

from posterity.priors.gaussian import FlatGaussian, Gaussian
from posterity.priors.scales import RULES, kaiming

__all__ = ["RULES", "FlatGaussian", "Gaussian", "kaiming"]
