"""Items of a study that are no runs: functions by name, of numbers and words, that return numbers.

quadratic_descent   momentum descent on a quadratic    u <- mu u + h w,  w <- w - lr u                (optim.regions)
penalty_prior       the prior that a penalty stands for, its factor, and whether it is a KL           (SPEC 6)
exact_elbo          a wide network's ELBO in closed form, its limit, and the gap between them         (SPEC 13, K1-K3)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from inspect import signature
from typing import Any

import torch

from posterity.bayesian import bayesian
from posterity.core.errors import UsageError, unknown_name
from posterity.core.options import check_options, options_of
from posterity.core.randomness import generator
from posterity.experiments.penalty import study_penalty
from posterity.likelihoods import GaussianNoise
from posterity.models import mean_field
from posterity.models.mean_field_net import INIT_VARIANCE
from posterity.objectives import elbo_gap, kl_divergence

Numbers = dict[str, float]
HUGE, TINY = 1e12, 1e-250  # errors at which a descent has diverged, or has arrived as far as numbers go


def quadratic_descent(
    *, lr: float, momentum: float = 0.0, curvature: float = 1.0, steps: int = 200, seed: int = 0
) -> Numbers:
    """The error after `steps` relative to the first, its factor a step over the second half, and whether it diverged.

    Limits: momentum 0 has the factor |1 - lr h|; in the robust region the factor is sqrt(momentum).
    """
    if curvature <= 0 or steps < 2:
        raise UsageError(f"a descent needs a positive curvature and two steps, not {curvature} and {steps}")
    start = 1.0 + abs(torch.randn((), dtype=torch.float64, generator=generator(seed, "start")).item())
    w, u, norms = start, 0.0, [start]
    for _ in range(steps):
        u = momentum * u + curvature * w
        w -= lr * u
        norms.append(math.hypot(w, lr * u))  # of the whole state: w alone passes through zero
        if not TINY < norms[-1] <= HUGE * start:
            break
    half = len(norms) // 2
    factor = (norms[-1] / norms[half]) ** (1 / (len(norms) - 1 - half)) if norms[half] > 0 else 0.0
    return {"error": norms[-1] / start, "factor": factor, "diverged": float(norms[-1] > HUGE * start)}


def penalty_prior(
    *, penalty: str, inputs: int = 400, group_size: int = 1, family: str = "delta", seed: int = 0
) -> Numbers:
    """The factor of a penalty in a layer, the sd of its prior, and whether it is a KL of the family (1 or 0).

    The factor is such that a weight's prior has the variance 1 / inputs. Nothing is drawn: the seed is ignored.
    """
    found = study_penalty(penalty, inputs, group_size=group_size, family=family)
    verdict = found.completed or found.alone
    return {
        "factor": found.factor,
        "variance": found.sd**2,
        "is_kl": float(found.alone.is_kl),
        "completed_is_kl": float(verdict.is_kl),
        "dependence": found.alone.dependence,
        "mass": found.alone.mass,
    }


def exact_elbo(
    *,
    width: int,
    num_data: int = 100,
    inputs: int = 3,
    noise: float = 0.5,
    sd: float = 0.5,
    temperature: float = 1.0,
    seed: int = 0,
) -> Numbers:
    """A mean-field network's ELBO on random data at its start, its limit for wide networks, and the gap (nats).

    `sd` is relative to the prior's. Limits: the gap falls as 1 / width, and does not depend on the temperature.
    """
    random = generator(seed, "data")
    x = torch.randn(num_data, inputs, generator=random, dtype=torch.float64)
    y = torch.randn(num_data, 1, generator=random, dtype=torch.float64)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = mean_field((inputs,), 1, hidden=(width,)).double()
    net = bayesian(model, prior=math.sqrt(INIT_VARIANCE), relative_sd=sd, seed=seed)
    with torch.no_grad():
        found = elbo_gap(net, GaussianNoise(noise), x, y, temperature=temperature)
        kl = kl_divergence(net.posterior, net.prior).item()
    return {"elbo": found.elbo, "limit": found.limit, "gap": found.gap, "kl": kl}


FUNCTIONS: Mapping[str, Callable[..., Numbers]] = {
    function.__name__: function for function in (quadratic_descent, penalty_prior, exact_elbo)
}


def check_function(name: str, parameters: Mapping[str, Any]) -> None:
    """Refuse an unknown function, or parameters that it does not take."""
    if name not in FUNCTIONS:
        raise unknown_name("function", name, FUNCTIONS)
    check_options(f"function {name}", parameters, options_of(FUNCTIONS[name]))
    try:
        signature(FUNCTIONS[name]).bind(**parameters)
    except TypeError as error:
        raise UsageError(f"function {name}: {error}; give it among [parameters] or as an axis") from error
