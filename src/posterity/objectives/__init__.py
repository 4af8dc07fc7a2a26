"""What training minimises."""

from posterity.objectives.baseline import BASELINES, MovingBaseline
from posterity.objectives.elbo import Loss, negative_elbo
from posterity.objectives.empirical import check_learnable, learn_scale
from posterity.objectives.estimate import GRADIENTS, check_estimate
from posterity.objectives.mean_field_limit import elbo_gap, exact_elbo, limit_functional, output_moments
from posterity.objectives.pairs import PAIRS, Pair, draw_with_kl, kl_by_weight, kl_divergence
from posterity.objectives.tempering import auto, per_neuron, per_weight, temperature_rule, warm_up
from posterity.objectives.variance import GradientVariance, gradient_variance
from posterity.objectives.weighting import kl_weights

__all__ = [
    "BASELINES",
    "GRADIENTS",
    "PAIRS",
    "GradientVariance",
    "Loss",
    "MovingBaseline",
    "Pair",
    "auto",
    "check_estimate",
    "check_learnable",
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
    "temperature_rule",
    "warm_up",
]
