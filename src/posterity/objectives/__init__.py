"""What training minimises."""

from posterity.objectives.baseline import BASELINES, MovingBaseline
from posterity.objectives.divergence import kl_by_weight, kl_divergence
from posterity.objectives.draw import draw_with_kl
from posterity.objectives.elbo import Loss, negative_elbo
from posterity.objectives.empirical import learn_scale
from posterity.objectives.estimate import GRADIENTS, check_estimate
from posterity.objectives.mean_field_limit import elbo_gap, exact_elbo, limit_functional, output_moments
from posterity.objectives.tempering import per_neuron, per_weight, warm_up
from posterity.objectives.variance import GradientVariance, gradient_variance
from posterity.objectives.weighting import kl_weights

__all__ = [
    "BASELINES",
    "GRADIENTS",
    "GradientVariance",
    "Loss",
    "MovingBaseline",
    "check_estimate",
    "draw_with_kl",
    "elbo_gap",
    "exact_elbo",
    "gradient_variance",
    "kl_by_weight",
    "kl_divergence",
    "kl_weights",
    "learn_scale",
    "limit_functional",
    "negative_elbo",
    "output_moments",
    "per_neuron",
    "per_weight",
    "warm_up",
]
