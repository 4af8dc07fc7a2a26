"""Empirical Bayes: the prior's scale from the weights themselves.

For each weight tensor the scale that minimises KL(q || prior), in closed form (priors.gaussian, priors.laplace). Used
in turn with steps on q it climbs the ELBO as a function of both. A point posterior is refused: with it both would
shrink to zero together, the prior's density growing without bound.
"""

from __future__ import annotations

import torch

from posterity.bayesian import BayesianModule
from posterity.core.errors import UsageError
from posterity.posteriors import Posterior
from posterity.priors import Prior


def check_learnable(posterior: Posterior, prior: Prior) -> None:
    """Refuse a pair for which `learn_scale` is not defined."""
    if not posterior.random:
        raise UsageError("a point posterior cannot learn its prior's scale: both would shrink to zero; use mean_field")
    prior.check_learnable()


@torch.no_grad()
def learn_scale(net: BayesianModule) -> None:
    """Set the scale of the prior of `net` to the best for its posterior."""
    check_learnable(net.posterior, net.prior)
    net.prior.fit_scale(net.posterior.mean, net.posterior.sd, net.layout.sizes)
