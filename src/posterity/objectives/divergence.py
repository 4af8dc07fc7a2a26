"""KL(q || prior), summed over all weights, in nats.

    Gaussian q and prior, z = (mean - prior_mean) / prior_sd, r = sd / prior_sd:
        kl = sum_i [ (r_i^2 + z_i^2 - 1) / 2 - log r_i ]
    Gaussian q, any prior:  kl = -entropy(q) - E_q log prior, the last by `prior.expected_log_density`: in closed form
        for Laplace priors and L2, L1 penalties, otherwise by quadrature (priors.expectations), not by sampling
    Point q: -log prior(mean), the KL up to a constant that no parameter changes.

Limits: q = prior gives 0; sd -> 0 gives +inf logarithmically.
"""

from __future__ import annotations

from torch import Tensor

from posterity.posteriors import MeanField, Point, Posterior
from posterity.posteriors.mean_field import HALF_LOG_2PI
from posterity.priors import FlatGaussian, Prior


def kl_by_weight(posterior: Posterior, prior: Prior) -> Tensor:
    """Each weight's share (N,) of the KL."""
    if isinstance(posterior, Point):
        return prior.energy_by_weight(posterior.mean)
    if not isinstance(posterior, MeanField):
        raise TypeError(f"no closed-form KL from {type(posterior).__name__} to {type(prior).__name__}")
    if not isinstance(prior, FlatGaussian):
        sd = posterior.sd
        return -sd.log() - HALF_LOG_2PI - 0.5 - prior.expected_log_density(posterior.mean, sd)
    shift = (posterior.mean - prior.mean) / prior.sd
    ratio = posterior.sd / prior.sd
    return 0.5 * (ratio.square() + shift.square() - 1) - ratio.log()


def kl_divergence(posterior: Posterior, prior: Prior) -> Tensor:
    """KL(posterior || prior)."""
    return kl_by_weight(posterior, prior).sum()
