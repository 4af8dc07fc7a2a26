"""How noisy the gradient is, and what a draw of it costs, by estimator of the pass and by kind of gradient.

    variance = trace of the gradient's covariance over draws, on one batch, at fixed weights, by group (mean, sd)
    norm     = sqrt(|average of the draws|^2 - variance / draws), or 0: of the expected gradient, without that bias

The batch is fixed, so that the noise of minibatches is not in it. Averaging S draws divides the variance by S and
multiplies the time by S: the kind with the smallest product of the two is the best.
"""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from itertools import product
from typing import Any

import torch
from torch import Tensor

from posterity.bayesian import BayesianModule
from posterity.core.errors import UsageError, unknown_name
from posterity.core.randomness import NoiseSource, derive
from posterity.estimators import ESTIMATORS
from posterity.likelihoods import Likelihood
from posterity.objectives.baseline import LEAVE_ONE_OUT
from posterity.objectives.elbo import negative_elbo
from posterity.objectives.estimate import GRADIENTS, SCORE


@dataclass(frozen=True)
class GradientVariance:
    """Variance of the gradient by group, norm of its expectation, and seconds for a draw (the median)."""

    estimator: str
    gradient: str
    baseline: str | None
    variance: dict[str, float]
    norm: dict[str, float]
    seconds: float
    relative_time: float = 1.0  # to the first kind that was measured

    @property
    def name(self) -> str:
        """Estimator, gradient and baseline in one."""
        return " ".join(
            filter(None, (self.estimator, self.gradient, self.baseline and self.baseline.replace("_", " ")))
        )

    def as_dict(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


def gradient_variance(
    net: BayesianModule,
    likelihood: Likelihood,
    x: Tensor,
    y: Tensor,
    *,
    num_data: int,
    draws: int = 100,
    samples: int = 1,
    estimators: Iterable[str] = ESTIMATORS,
    gradients: Iterable[str] = GRADIENTS,
    temperature: float = 1.0,
    kl_weight: float = 1.0,
    seed: int = 0,
) -> list[GradientVariance]:
    """The variance of each kind of gradient on the batch `x`, `y`; the network is left as it was.

    Kinds that this network does not have are left out; if none is left, the first's error is raised.
    With `samples` of 2 or more the score is also measured with its leave-one-out baseline.
    """
    if draws < 2:
        raise UsageError(f"a variance takes at least 2 draws, not {draws}")
    options = {"num_data": num_data, "samples": samples, "temperature": temperature, "kl_weight": kl_weight}
    if not net.posterior.random:
        raise UsageError(f"a {net.posterior.kind} posterior's gradient has no variance from its weights")
    found: list[GradientVariance] = []
    refused: list[UsageError] = []
    for estimator, gradient, baseline in _kinds(list(estimators), list(gradients), samples):
        copied, observed = copy.deepcopy((net, likelihood))
        copied.noise_source = NoiseSource(derive(seed, "gradient variance"))
        chosen = {"estimator": estimator, "gradient": gradient, "baseline": baseline}
        try:
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(derive(seed, "modules"))
                variance, norm, seconds = _measure(copied, observed, x, y, draws, **options, **chosen)
        except UsageError as error:  # a kind that this network does not have
            refused.append(error)
            continue
        relative = seconds / found[0].seconds if found else 1.0
        found.append(GradientVariance(estimator, gradient, baseline, variance, norm, seconds, relative))
    if not found and refused:
        raise refused[0]
    return found


def _kinds(estimators: list[str], gradients: list[str], samples: int) -> list[tuple[str, str, str | None]]:
    for kind, names, known in (("estimator", estimators, ESTIMATORS), ("gradient", gradients, GRADIENTS)):
        for name in names:
            if name not in known:
                raise unknown_name(kind, name, known)
    kinds: list[tuple[str, str, str | None]] = []
    for estimator, gradient in product(estimators, gradients):
        kinds.append((estimator, gradient, None))
        if gradient == SCORE and samples > 1:
            kinds.append((estimator, gradient, LEAVE_ONE_OUT))
    return kinds


def _measure(
    net: BayesianModule, likelihood: Likelihood, x: Tensor, y: Tensor, draws: int, **options: Any
) -> tuple[dict[str, float], dict[str, float], float]:
    """Welford's running mean and sum of squared deviations, in double precision."""
    groups = net.posterior.groups()
    mean = {name: torch.zeros((), dtype=torch.float64) for name in groups}
    squares = dict.fromkeys(groups, 0.0)
    seconds = []
    for number in range(draws + 1):
        net.zero_grad()
        likelihood.zero_grad()
        start = time.perf_counter()
        negative_elbo(net, likelihood, x, y, **options).backward()
        if number == 0:  # the first draw warms up, and learns which weights are used several times
            continue
        seconds.append(time.perf_counter() - start)
        for name, parameters in groups.items():
            grads = (torch.zeros_like(p) if p.grad is None else p.grad for p in parameters)
            gradient = torch.cat([grad.flatten() for grad in grads]).double()
            change = gradient - mean[name]
            mean[name] = mean[name] + change / number
            squares[name] += (change * (gradient - mean[name])).sum().item()
    variance = {name: square / (draws - 1) for name, square in squares.items()}
    norm = {n: math.sqrt(max(0.0, m.square().sum().item() - variance[n] / draws)) for n, m in mean.items()}
    return variance, norm, sorted(seconds)[len(seconds) // 2]
