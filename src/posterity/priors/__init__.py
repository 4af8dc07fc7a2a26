"""Priors over the flat weight vector, penalties, and the equivalence between the two."""

from posterity.priors.gaussian import FlatGaussian, Gaussian
from posterity.priors.laplace import FlatLaplace, Laplace
from posterity.priors.parts import SIMPLE, FlatParts, Parts
from posterity.priors.penalised import FlatPenalty, FromPenalty
from posterity.priors.penalties import PENALTIES, penalty_factor
from posterity.priors.prior import Prior, PriorRule
from posterity.priors.scale_mixture import FlatMixture, ScaleMixture
from posterity.priors.scales import RULES, kaiming
from posterity.priors.student import FlatStudentT, StudentT
from posterity.priors.tabulated import FlatTabulated, Tabulated

PRIORS: dict[str, type[Prior]] = {**SIMPLE, FlatParts.kind: FlatParts}

__all__ = [
    "PENALTIES",
    "PRIORS",
    "RULES",
    "FlatGaussian",
    "FlatLaplace",
    "FlatMixture",
    "FlatParts",
    "FlatPenalty",
    "FlatStudentT",
    "FlatTabulated",
    "FromPenalty",
    "Gaussian",
    "Laplace",
    "Parts",
    "Prior",
    "PriorRule",
    "ScaleMixture",
    "StudentT",
    "Tabulated",
    "kaiming",
    "penalty_factor",
]
