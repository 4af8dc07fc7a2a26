"""Whether the standard deviations are where the ELBO wants them.

Stretch the posterior's spread by a factor c, all of it or one layer's:  w = mean + c z,  z = draw - mean.  In units of
temperature / num_data the loss then is
    L(c) = E[ (num_data / temperature) nll(w) - log prior(w) ] - N log c + const
as the entropy of every family grows by N log c, N the number of weights that are stretched. With
    force = E[ sum z d/dw ( (num_data / temperature) nll - log prior ) ]    at c = 1
the derivative is force - N: at the optimum force = N. Where nll and -log prior are quadratic in w, force grows as c^2,
and the best factor is
    wanted = sqrt(N / force).
Standard deviations that still are what an initialisation made them, too small, want many times what they have.

Antithetic pairs of draws and some of the rows suffice, since the gradient at the mean cancels in a pair. The noise is
its own: a training that is measured stays what it is.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from posterity.bayesian import BayesianModule
from posterity.core import inputs
from posterity.core.precision import wide
from posterity.core.randomness import NoiseSource, derive, generator
from posterity.data import Dataset
from posterity.likelihoods import Likelihood

ROWS = 500  # of the training data, at most
PAIRS = 8  # of antithetic draws
TOLERANCE = 1.5  # factors beyond it, or below its inverse, are worth a word
LIMIT = 1e3  # largest factor that is told: a force that vanishes, or pushes, wants any spread
ALL = "all"


def wanted_spread(
    net: BayesianModule,
    likelihood: Likelihood,
    train: Dataset,
    *,
    temperature: float,
    seed: int,
    num_data: int | None = None,
) -> dict[str, float]:
    """The factor on the standard deviations that the ELBO wants: of all weights, and by layer.

    `train` may be a sample of `num_data` rows.
    """
    num_data = len(train) if num_data is None else num_data
    some = torch.randperm(len(train), generator=generator(seed, "arrival/rows"), device="cpu")[:ROWS]
    batch = train.rows(some).changed(lambda part: inputs.moved(part, net.posterior.mean))
    source = NoiseSource(derive(seed, "arrival/noise"))
    mean = net.posterior.mean.detach()
    forces = torch.zeros_like(wide(mean))
    for _ in range(PAIRS):
        noise = source.normal((net.posterior.noise_size,), mean)
        for signed in (noise, -noise):
            weights = net.posterior.sample(signed).detach().requires_grad_()
            with net.hosted(net.layout.views(weights)) as model:
                nll = likelihood.nll(inputs.call(model, batch.x).unsqueeze(0), *batch.targets)
            energy = (num_data / temperature) * nll + net.prior.energy_by_weight(weights).sum()
            (gradient,) = torch.autograd.grad(energy, weights)
            forces += (weights.detach() - mean) * gradient / (2 * PAIRS)
    sizes, by_layer = net.layout.sum_by_layer(torch.ones_like(forces)), net.layout.sum_by_layer(forces)
    return {ALL: _factor(len(forces), forces.sum())} | {n: _factor(sizes[n], force) for n, force in by_layer.items()}


def arrival_warnings(wanted: dict[str, float]) -> list[str]:
    """What to say where the spread is not where it should be."""
    factor = wanted[ALL]
    if 1 / TOLERANCE <= factor <= TOLERANCE:
        return []
    return [
        f"the standard deviations have not arrived (the ELBO wants about {factor:.2g} times what they are): the "
        "uncertainty is still that of their start. Train for longer (epochs), or raise their rate (lr_sd)"
    ]


def _factor(size: Tensor | int, force: Tensor) -> float:
    ratio = float(size) / force.item() if force.item() > 0 else math.inf
    return float(f"{min(math.sqrt(ratio), LIMIT):.4g}")
