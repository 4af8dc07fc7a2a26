"""What training minimises."""

from posterity.objectives.divergence import Divergence, kl_divergence
from posterity.objectives.elbo import Loss, negative_elbo
from posterity.objectives.weighting import kl_weights

__all__ = ["Divergence", "Loss", "kl_divergence", "kl_weights", "negative_elbo"]
