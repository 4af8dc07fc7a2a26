"""What training minimises."""

from posterity.objectives.divergence import kl_by_weight, kl_divergence
from posterity.objectives.draw import draw_with_kl
from posterity.objectives.elbo import Loss, negative_elbo
from posterity.objectives.empirical import learn_scale
from posterity.objectives.weighting import kl_weights

__all__ = ["Loss", "draw_with_kl", "kl_by_weight", "kl_divergence", "kl_weights", "learn_scale", "negative_elbo"]
