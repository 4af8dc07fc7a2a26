"""Priors over the flat weight vector."""

from posterity.priors.gaussian import FlatGaussian, Gaussian
from posterity.priors.laplace import FlatLaplace, Laplace
from posterity.priors.prior import Prior, PriorRule
from posterity.priors.scale_mixture import FlatMixture, ScaleMixture
from posterity.priors.scales import RULES, kaiming
from posterity.priors.student import FlatStudentT, StudentT

PRIORS: dict[str, type[Prior]] = {prior.kind: prior for prior in (FlatGaussian,FlatLaplace,FlatMixture,FlatStudentT)}

__all__ = ["PRIORS", "RULES", "FlatGaussian", "Gaussian", "Prior", "PriorRule", "kaiming"]
