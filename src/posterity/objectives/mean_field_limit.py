"""The limit of the ELBO for wide networks: source 002's functional, and how far the ELBO is from it.

For f = (1/N) sum_j a_j act(b_j . x) (models.mean_field_net) under independent Gaussian weights, in nats, summed over
the p data, with l = -log P(y | f) and eta the temperature:

    elbo  = -sum_i E[l(y_i, f(x_i))] - eta kl                                    the tempered ELBO
    limit = -sum_i l(y_i, E f(x_i))  - eta kl                                    F~: the mean inside the loss
    gap   = limit - elbo = sum_i (E[l(y_i, f(x_i))] - l(y_i, E f(x_i)))          does not depend on eta

With m_j, s_j the moments of b_j . x and A_j = E act, B_j = E act^2 for a Gaussian of these moments:

    E f   = (1/N)   sum_j E[a_j] A_j
    Var f = (1/N^2) sum_j (E[a_j]^2 + Var a_j) B_j - E[a_j]^2 A_j^2

    relu  A = m Phi(m/s) + s phi(m/s),  B = (m^2 + s^2) Phi(m/s) + m s phi(m/s)

Other activations by the trapezoidal rule in u / s, whose error falls exponentially for a smooth one. tanh has poles at
i pi / 2 from the axis: with steps h its error is exp(-pi^2 / (s h)), below 1e-8 for h = min(0.1, 0.5 / s).

Gaussian likelihood of noise sd s:  gap = sum_i Var f(x_i) / (2 s^2), exactly. Others: Monte Carlo with the control
variate l'(E f) (f - E f), whose mean is exactly 0: what is left is of second order, as the gap itself is.

Limits: gap >= 0 for a loss convex in f (Jensen); sd -> 0 gives gap 0; gap <= C p / N with C free of N [1, theorem].

[1] Huix, Majewski, Durmus, Moulines, Korba, Variational inference of overparameterized Bayesian neural networks, 2022.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from posterity.bayesian import BayesianModule
from posterity.core.errors import UsageError
from posterity.core.randomness import NoiseSource
from posterity.likelihoods import GaussianNoise, Likelihood
from posterity.models import MeanFieldNet
from posterity.objectives.pairs import kl_divergence

CUT, STEP, FINEST = 8.5, 0.1, 0.5  # of the quadrature: 1e-16 of the mass is outside; the longest steps, in s and in u
AT_A_TIME = 2**22  # weights and activations of the samples that are evaluated together


@dataclass(frozen=True)
class Gap:
    """`limit` - `elbo` in nats, with its standard error (0 where it is exact)."""

    elbo: float
    limit: float
    gap: float
    standard_error: float


def output_moments(net: BayesianModule, x: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and variance (n, k) of the outputs at `x` (n, ...) under the posterior, exact and differentiable."""
    model, posterior = net.model, net.posterior
    known = posterior.random and posterior.independent and len(net.layout.entries) == 2
    if not isinstance(model, MeanFieldNet) or not known:
        raise UsageError(
            "output moments are known for a mean-field network (model 'mean-field') with a mean_field or tied "
            f"posterior over all its weights, not for {type(model).__name__} with a {posterior.kind} one"
        )
    mean, variance = net.layout.views(posterior.mean), net.layout.views(posterior.sd.square())
    inputs = x.flatten(1)
    centre = inputs @ mean["inner.weight"].T
    # The smallest number keeps the square root differentiable for an input of zeros.
    spread = (inputs.square() @ variance["inner.weight"].T).clamp_min(torch.finfo(inputs.dtype).tiny).sqrt()
    first, second = activation_moments(model.activation, centre, spread)
    outer = mean["outer.weight"]
    expected = first @ outer.T / model.width
    square = second @ (outer.square() + variance["outer.weight"]).T - first.square() @ outer.square().T
    return expected, square.clamp_min(0) / model.width**2


def activation_moments(activation: nn.Module, mean: Tensor, sd: Tensor) -> tuple[Tensor, Tensor]:
    """E act(u) and E act(u)^2 for u ~ N(mean, sd^2), element by element."""
    if isinstance(activation, nn.ReLU):
        ratio = mean / sd
        cdf = torch.special.ndtr(ratio)
        density = (-0.5 * ratio.square()).exp() / math.sqrt(2 * math.pi)
        return mean * cdf + sd * density, (mean.square() + sd.square()) * cdf + mean * sd * density
    step = min(STEP, FINEST / max(sd.max().item(), FINEST)) if sd.numel() else STEP
    nodes = np.linspace(-CUT, CUT, 1 + 2 * math.ceil(CUT / step))
    weights = np.exp(-0.5 * nodes**2)
    first, second = torch.zeros_like(mean), torch.zeros_like(mean)
    for node, weight in zip(nodes.tolist(), (weights / weights.sum()).tolist(), strict=True):
        value = activation(mean + sd * node)
        first, second = first + weight * value, second + weight * value.square()
    return first, second


def limit_functional(
    net: BayesianModule,
    likelihood: Likelihood,
    x: Tensor,
    y: Tensor,
    *,
    num_data: int | None = None,
    temperature: float,
) -> Tensor:
    """F~ in nats; `x`, `y` are all `num_data` data, or a sample of them that is scaled up."""
    expected, _ = output_moments(net, x)
    return _tempered(net, _summed_loss(likelihood, expected, y), _scale(x, num_data), temperature)


def exact_elbo(
    net: BayesianModule,
    likelihood: Likelihood,
    x: Tensor,
    y: Tensor,
    *,
    num_data: int | None = None,
    temperature: float,
) -> Tensor:
    """The tempered ELBO in nats, without sampling; for a Gaussian likelihood with fixed or learnt noise."""
    expected, variance = output_moments(net, x)
    gap = _gaussian_gap(likelihood, expected, variance)
    return _tempered(net, _summed_loss(likelihood, expected, y) + gap, _scale(x, num_data), temperature)


@torch.no_grad()
def elbo_gap(
    net: BayesianModule,
    likelihood: Likelihood,
    x: Tensor,
    y: Tensor,
    *,
    num_data: int | None = None,
    temperature: float,
    samples: int = 256,
    seed: int = 0,
) -> Gap:
    """The ELBO, its limit, and the gap; sampled (`samples` weight vectors) unless the likelihood is Gaussian."""
    scale = _scale(x, num_data)
    limit = limit_functional(net, likelihood, x, y, num_data=num_data, temperature=temperature).item()
    if _is_exact(likelihood):
        gap, error = _gaussian_gap(likelihood, *output_moments(net, x)).item(), 0.0
    else:
        gap, error = _sampled_gap(net, likelihood, x, y, samples, seed)
    return Gap(limit - scale * gap, limit, scale * gap, scale * error)


def _sampled_gap(
    net: BayesianModule, likelihood: Likelihood, x: Tensor, y: Tensor, samples: int, seed: int
) -> tuple[float, float]:
    if samples < 2:
        raise UsageError(f"a standard error takes at least 2 weight samples, not {samples}")
    with torch.enable_grad():
        expected = output_moments(net, x)[0].detach().requires_grad_()
        loss = _summed_loss(likelihood, expected, y)
        (slope,) = torch.autograd.grad(loss, expected)
    source, net.noise_source = net.noise_source, NoiseSource(seed)
    try:
        values: list[float] = []
        together = max(1, AT_A_TIME // (net.num_weights + len(x) * net.layout.entries[0].shape[0]))
        while len(values) < samples:
            outputs = net.outputs(x, samples=min(together, samples - len(values)))
            linear = ((outputs - expected) * slope).sum((1, 2))
            values += (-likelihood.log_prob(outputs, y).sum(1) - loss - linear).tolist()
    finally:
        net.noise_source = source
    return float(np.mean(values)), float(np.std(values, ddof=1) / math.sqrt(samples))


def _summed_loss(likelihood: Likelihood, outputs: Tensor, y: Tensor) -> Tensor:
    return -likelihood.log_prob(outputs.unsqueeze(0), y).sum()


def _tempered(net: BayesianModule, loss: Tensor, scale: float, temperature: float) -> Tensor:
    return -(scale * loss) - temperature * kl_divergence(net.posterior, net.prior)


def _is_exact(likelihood: Likelihood) -> bool:
    return isinstance(likelihood, GaussianNoise) and likelihood.noise != "input"


def _gaussian_gap(likelihood: Likelihood, expected: Tensor, variance: Tensor) -> Tensor:
    if not (isinstance(likelihood, GaussianNoise) and _is_exact(likelihood)):
        raise UsageError(
            "the ELBO has a closed form for a Gaussian likelihood with fixed or learnt noise, not for "
            f"{likelihood.kind}: use elbo_gap, which samples"
        )
    _, sd = likelihood.moments(expected)
    return 0.5 * (variance / sd.square()).sum()


def _scale(x: Tensor, num_data: int | None) -> float:
    return 1.0 if num_data is None else num_data / len(x)
