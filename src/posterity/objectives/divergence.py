"""KL(q || prior), summed over all weights, in nats.

    Gaussian q and prior, z = (mean - prior_mean) / prior_sd, r = sd / prior_sd:
        kl = sum_i [ (r_i^2 + z_i^2 - 1) / 2 - log r_i ]
    Gaussian q of low rank, sd_i^2 its variances, s_i without its deviations' part, M = I + A A^T (posteriors.low_rank):
        kl = sum_i [ (r_i^2 + z_i^2 - 1) / 2 - log(s_i / prior_sd_i) ] - (log det M) / 2
    where a weight's share of the last term makes its share of the KL that of its marginal, plus its share, which is not
    negative, of what the weights tell of each other (their total correlation).
    Gaussian q, any prior:  kl = -entropy(q) - E_q log prior, the last by `prior.expected_log_density`: in closed form
        for Laplace priors and L2, L1 penalties, otherwise by quadrature (priors.expectations), not by sampling. It
        needs independent weights; of a low-rank q only each weight's marginal, if the prior has independent weights
    Point q: -log prior(mean), the KL up to a constant that no parameter changes; a bag of points: the mean of it.

Limits: q = prior gives 0; sd -> 0 gives +inf logarithmically.
"""

from __future__ import annotations

import torch
from torch import Tensor

from posterity.posteriors import LowRank, MeanField, Point, Posterior, Samples
from posterity.posteriors.mean_field import HALF_LOG_2PI
from posterity.priors import FlatGaussian, Prior


def kl_by_weight(posterior: Posterior, prior: Prior) -> Tensor:
    """Each weight's share (N,) of the KL; the gradient of a low-rank posterior's is in `kl_divergence` alone."""
    if isinstance(posterior, Point):
        return prior.energy_by_weight(posterior.mean)
    if isinstance(posterior, Samples):
        return torch.stack([prior.energy_by_weight(weights) for weights in posterior.weights]).mean(0)
    if isinstance(posterior, LowRank) and prior.factorised:
        return _without_correlation(posterior, prior) - posterior.half_log_det_by_weight()
    if not isinstance(posterior, MeanField):
        raise TypeError(f"no closed-form KL from {type(posterior).__name__} to {type(prior).__name__}")
    if not isinstance(prior, FlatGaussian):
        sd = posterior.sd
        return -sd.log() - HALF_LOG_2PI - 0.5 - prior.expected_log_density(posterior.mean, sd)
    shift = (posterior.mean - prior.mean) / prior.sd
    ratio = posterior.sd / prior.sd
    return 0.5 * (ratio.square() + shift.square() - 1) - ratio.log()


_KNOWN: dict[tuple[type[Posterior], type[Prior], bool], bool] = {}


def has_kl(posterior: Posterior, prior: Prior) -> bool:
    """Whether `kl_by_weight` has the KL between distributions of these kinds."""
    kinds = (type(posterior), type(prior), prior.factorised)
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
    if isinstance(posterior, LowRank) and prior.factorised:
        return _without_correlation(posterior, prior).sum() - posterior.half_log_det()
    return kl_by_weight(posterior, prior).sum()


def _without_correlation(posterior: LowRank, prior: Prior) -> Tensor:
    """The part (N,) of a low-rank posterior's KL that is a sum over the weights."""
    if not isinstance(prior, FlatGaussian):
        expected = prior.expected_log_density(posterior.mean, posterior.sd)
        return -posterior.own_sd.log() - HALF_LOG_2PI - 0.5 - expected
    square = (posterior.mean - prior.mean).square() + posterior.variance()
    return 0.5 * (square * prior.precision - 1) - (posterior.own_sd / prior.sd).log()
