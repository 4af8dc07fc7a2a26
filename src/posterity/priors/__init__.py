"""Priors over the flat weight vector."""

from posterity.priors.gaussian import FlatGaussian, Gaussian
from posterity.priors.prior import Prior, PriorRule
from posterity.priors.scales import RULES, kaiming

PRIORS: dict[str, type[Prior]] = {prior.kind: prior for prior in (FlatGaussian,)}

__all__ = ["PRIORS", "RULES", "FlatGaussian", "Gaussian", "Prior", "PriorRule", "kaiming"]
