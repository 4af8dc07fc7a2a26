"""A wide network's ELBO in closed form, its limit, and the gap between them        (SPEC 13, K1-K3)."""

from __future__ import annotations

import math

import torch

from posterity.bayesian import bayesian
from posterity.core.randomness import generator
from posterity.likelihoods import Categorical, GaussianNoise, Likelihood
from posterity.models import mean_field
from posterity.models.mean_field_net import INIT_VARIANCE
from posterity.objectives import elbo_gap, kl_divergence

SAMPLES = 1024  # of the weights, where the likelihood has no closed form


def exact_elbo(
    *,
    width: int,
    num_data: int = 100,
    inputs: int = 3,
    noise: float = 0.5,
    sd: float = 0.5,
    temperature: float = 1.0,
    classes: int = 0,
    seed: int = 0,
) -> dict[str, float]:
    """A mean-field network's ELBO on random data at its start, its limit for wide networks, and the gap (nats).

    `sd` is relative to the prior's. With `classes` the loss is their cross-entropy, and the ELBO no longer exact but
    sampled (SAMPLES). Limits: the gap falls as 1 / width, and does not depend on the temperature.
    """
    random = generator(seed, "data")
    x = torch.randn(num_data, inputs, generator=random, dtype=torch.float64)
    y = torch.randn(num_data, 1, generator=random, dtype=torch.float64)
    likelihood: Likelihood = GaussianNoise(noise)
    if classes:
        y, likelihood = torch.randint(classes, (num_data,), generator=random), Categorical()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = mean_field((inputs,), classes or 1, hidden=(width,)).double()
    net = bayesian(model, prior=math.sqrt(INIT_VARIANCE), relative_sd=sd, seed=seed)
    with torch.no_grad():
        found = elbo_gap(net, likelihood, x, y, temperature=temperature, samples=SAMPLES, seed=seed)
        kl = kl_divergence(net.posterior, net.prior).item()
    return {"elbo": found.elbo, "limit": found.limit, "gap": found.gap, "kl": kl}
