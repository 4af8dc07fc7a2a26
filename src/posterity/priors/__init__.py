"""Priors over the flat weight vector, penalties, and the equivalence between the two."""

from posterity.priors.distributions import FlatDistribution, FromDistribution, prior_rule
from posterity.priors.gaussian import FlatGaussian, Gaussian
from posterity.priors.laplace import FlatLaplace, Laplace
from posterity.priors.parts import FlatParts, Parts
from posterity.priors.penalised import FlatPenalty, FromPenalty
from posterity.priors.penalties import PENALTIES, VARIANCES, penalty_factor
from posterity.priors.prior import Prior, PriorRule
from posterity.priors.scale_mixture import FlatMixture, ScaleMixture
from posterity.priors.scales import DEFAULT_SCALE, SCALES, kaiming
from posterity.priors.shapes import KINDS, SHAPES, build_prior, check_prior_options, prior_options
from posterity.priors.student import FlatStudentT, StudentT
from posterity.priors.tabulated import FlatTabulated, Tabulated

PRIORS = KINDS  # and what is made of them
PRIORS[FlatParts.kind] = FlatParts

__all__ = [
    "DEFAULT_SCALE",
    "KINDS",
    "PENALTIES",
    "PRIORS",
    "SCALES",
    "SHAPES",
    "VARIANCES",
    "FlatDistribution",
    "FlatGaussian",
    "FlatLaplace",
    "FlatMixture",
    "FlatParts",
    "FlatPenalty",
    "FlatStudentT",
    "FlatTabulated",
    "FromDistribution",
    "FromPenalty",
    "Gaussian",
    "Laplace",
    "Parts",
    "Prior",
    "PriorRule",
    "ScaleMixture",
    "StudentT",
    "Tabulated",
    "build_prior",
    "check_prior_options",
    "kaiming",
    "penalty_factor",
    "prior_options",
    "prior_rule",
]
