"""KL(q || prior), summed over all weights, in nats.

    Gaussian q and prior, z = (mean - prior_mean) / prior_sd, r = sd / prior_sd:
        kl = sum_i [ (r_i^2 + z_i^2 - 1) / 2 - log r_i ]
    Point q: -log prior(mean), the KL up to a constant that no parameter changes.

Limits: q = prior gives 0; sd -> 0 gives +inf logarithmically.
"""

from __future__ import annotations

import torch
from torch import Tensor

from posterity.posteriors import MeanField, Point, Posterior
from posterity.priors import FlatGaussian, Prior


def kl_by_weight(posterior: Posterior, prior: Prior) -> Tensor:
    """Each weight's share (N,) of the KL."""
    if isinstance(posterior, Point):
        return -prior.log_density_by_weight(posterior.mean)
    if not (isinstance(posterior, MeanField) and isinstance(prior, FlatGaussian)):
        raise TypeError(f"no closed-form KL from {type(posterior).__name__} to {type(prior).__name__}")
    shift = (posterior.mean - prior.mean) / prior.sd
    ratio = posterior.sd / prior.sd
    return 0.5 * (ratio.square() + shift.square() - 1) - ratio.log()


_KNOWN: dict[tuple[type[Posterior], type[Prior]], bool] = {}


def has_kl(posterior: Posterior, prior: Prior) -> bool:
    """Whether `kl_by_weight` has the KL between distributions of these kinds."""
    kinds = (type(posterior), type(prior))
    if kinds not in _KNOWN:
        try:
            with torch.no_grad():
                kl_by_weight(posterior, prior)
            _KNOWN[kinds] = True
        except TypeError:
            _KNOWN[kinds] = False
    return _KNOWN[kinds]


def kl_divergence(posterior: Posterior, prior: Prior) -> Tensor:
    """KL(posterior || prior)."""
    return kl_by_weight(posterior, prior).sum()
