"""The best mean-field posterior of a wide network, without sampling        (SPEC 13, K1-K3).

f(x) = (1/N) sum_j a_j relu(b_j . x), prior N(0, 1/5), p data y = sin(2 x) + noise at inputs (x, 1), x uniform on
[-2, 2]. Outputs have closed-form moments (objectives.mean_field_limit), so that the ELBO is an ordinary function of
means and standard deviations: it is maximised by L-BFGS, and only data and start are random, drawn by the seed.

    temperature eta     the number, or tau p / N by neurons
    balance             eta kl / (p nll): the weight of the penalty beside that of the data
    scaled_gap          gap N / p, gap = limit - elbo: source 002's theorem says that it is bounded
    gain                how much the ELBO is above that of q = prior: never below 0 at an optimum
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from posterity.bayesian import BayesianModule, bayesian
from posterity.core.errors import UsageError
from posterity.core.randomness import derive, generator
from posterity.likelihoods import GaussianNoise
from posterity.models import mean_field
from posterity.models.mean_field_net import INIT_VARIANCE
from posterity.objectives import elbo_gap, exact_elbo, kl_divergence, limit_functional

MAXIMISED = {"elbo": exact_elbo, "limit": limit_functional}
REACH = 2.0
HISTORY = 20  # vectors that L-BFGS keeps


def mean_field_optimum(
    *,
    width: int,
    num_data: int = 40,
    noise: float = 0.5,
    temperature: float = 1.0,
    tau: float = 0.0,
    maximised: str = "elbo",
    fitted_at: float = 0.0,
    starts: int = 1,
    sd: float = 0.5,
    iterations: int = 400,
    seed: int = 0,
) -> dict[str, float]:
    """The objective's terms where q starts (`start_...`) and where the ELBO or its `limit` is largest.

    Means start from draws of the prior, at `sd` of its standard deviation: a fixed law of the neurons. Narrow networks
    have local optima: the best of `starts` ascents counts. With `fitted_at` above 0 each first goes to the optimum at
    this tau, which fits the data. Limit: width -> inf at temperature 1 gives q = prior, kl = 0.
    """
    if maximised not in MAXIMISED:
        raise UsageError(f"what is maximised is {' or '.join(MAXIMISED)}, not '{maximised}'")
    x, y = _data(num_data, noise, seed)
    problem = _Problem(x, y, GaussianNoise(noise), tau * num_data / width if tau else temperature)
    first = problem.terms(_network(width, sd, derive(seed, "start 0")))
    best: dict[str, float] = {}
    for number in range(starts):
        net = _network(width, sd, derive(seed, f"start {number}"))
        if fitted_at:
            _ascend(net, replace(problem, eta=fitted_at * num_data / width), maximised, iterations)
        slope = _ascend(net, problem, maximised, iterations)
        found = {**problem.terms(net), "slope": slope}
        best = found if not best or found[maximised] > best[maximised] else best
    at_prior = problem.terms(_network(width, 1.0, seed, centred=True))
    start = {f"start_{name}": value for name, value in first.items()}
    return {**start, **best, "gain": best["elbo"] - at_prior["elbo"], "eta": problem.eta}


@dataclass(frozen=True)
class _Problem:
    """Data, their likelihood, and the temperature."""

    x: Tensor
    y: Tensor
    likelihood: GaussianNoise
    eta: float

    @torch.no_grad()
    def terms(self, net: BayesianModule) -> dict[str, float]:
        found = elbo_gap(net, self.likelihood, self.x, self.y, temperature=self.eta)
        kl = kl_divergence(net.posterior, net.prior).item()
        nll = -(found.elbo + self.eta * kl) / len(self.x)
        return {
            "elbo": found.elbo,
            "limit": found.limit,
            "gap": found.gap,
            "scaled_gap": found.gap * net.layout.entries[0].shape[0] / len(self.x),
            "kl": kl,
            "kl_per_weight": kl / net.num_weights,
            "nll": nll,
            "balance": self.eta * kl / (len(self.x) * nll),
        }


def _data(num_data: int, noise: float, seed: int) -> tuple[Tensor, Tensor]:
    random = generator(seed, "data")
    x = REACH * (2 * torch.rand(num_data, 1, generator=random, dtype=torch.float64) - 1)
    y = torch.sin(2 * x) + noise * torch.randn(x.shape, generator=random, dtype=torch.float64)
    return torch.cat([x, torch.ones_like(x)], 1), y


def _network(width: int, sd: float, seed: int, *, centred: bool = False) -> BayesianModule:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = mean_field((2,), 1, hidden=(width,)).double()
    net = bayesian(model, prior=math.sqrt(INIT_VARIANCE), relative_sd=sd, seed=seed)
    if centred:
        with torch.no_grad():
            net.posterior.mean.zero_()
    return net


def _ascend(net: BayesianModule, problem: _Problem, maximised: str, iterations: int) -> float:
    """To the optimum; the largest component of the gradient that is left, of the loss by datum."""
    optimizer = torch.optim.LBFGS(
        net.posterior.parameters(),
        max_iter=iterations,
        history_size=HISTORY,
        tolerance_grad=1e-11,
        tolerance_change=1e-14,
        line_search_fn="strong_wolfe",
    )

    def closure() -> Tensor:
        optimizer.zero_grad()
        functional = MAXIMISED[maximised](net, problem.likelihood, problem.x, problem.y, temperature=problem.eta)
        loss: Tensor = -functional / len(problem.x)
        loss.backward()
        return loss

    optimizer.step(closure)
    closure()
    return max(p.grad.abs().max().item() for p in net.posterior.parameters() if p.grad is not None)
