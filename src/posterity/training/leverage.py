"""Leverages: how far a network follows each of the targets that it was trained on.

A residual r of the training is smaller than that of a datum which was left out, r / (1 - h), with the leverage h of the
datum: exactly so where the network is linear. To first order around the mean of q, for targets z with noise s,
J = dz / dw / s, prior variances V, at the temperature T,

    h_n = J_n C J_n^T,    C = (J^T J + T V^-1)^-1                                                    (Gauss-Newton)
    1 - h = diag (K + 1)^-1,    K = J V J^T / T                                              (the same, over the rows)

The first is a matrix (N, N), of networks with up to MOST_WEIGHTS; the second one (n, n), of up to MOST_ROWS targets
where these are all that were trained on. Of more of them a sample of m tells: rows that are random act on average like
a fixed ridge k with degrees of freedom d(k), and so [1] do m of them with noise of variance r, and mean leverage h_m,
where

    m h_m = d(k),    r / (m (1 - h_m)) = k,    and all n with noise 1:    n h_n = d(k),    1 / (n (1 - h_n)) = k

which is the same k for the r with sum_i (1 + u_i) / (u_i + r) = n over the eigenvalues u of the sample's K. Then, for
each row of the sample, v = 1 / (K + r)^-1_ii - r is what the others leave open, and h = v / (1 + v).
There is no such r where d(k) > m. Then h lies above m / n, and below what the spread of the outputs under q says,

    mean_n min(1, Var_q[z_n] / (T s_n^2)),  at most N / n

which is h where q has all correlations, and larger in a mean-field network, which counts each weight as one degree of
freedom, whatever the others do: by two and a half times in one with two hidden layers of 100. Their geometric mean is
taken, one for all rows. Limits: a linear network without a prior has h = N / n on average; one with more weights than
rows and no prior follows them all the way, h = 1; m = n has r = 1, and the exact leverages.

[1] Wei, Hu, Steinhardt, More than a toy: random matrix models predict how real-world neural representations
    generalize, 2022.
"""

from __future__ import annotations

import math

import torch
from scipy.optimize import brentq
from torch import Tensor

from posterity.bayesian import BayesianModule
from posterity.core import inputs
from posterity.core.inputs import Inputs
from posterity.core.precision import wide
from posterity.likelihoods import GaussianNoise, RealPrediction
from posterity.likelihoods.gaussian import mean_over_rows

MOST_WEIGHTS = 1500  # whose matrix is inverted: some 50 ms
MOST_ROWS = 2000  # targets, whose matrix is
MOST_GRADIENTS = 2**26  # numbers, half a gigabyte, of all targets together
ROUNDING = 1e-10  # of the mean curvature, that directions without any are given
FEWEST_SAMPLED, MOST_SAMPLED = 100, 4000  # targets that may stand for more
SAMPLED_GRADIENTS = 2**27  # half a gigabyte in single precision
MOST_PRODUCTS = 2**37  # of a sample's matrix, some five seconds
ROWS = 50  # whose gradients are taken from one pass


def has_leverages(num_weights: int, num_targets: int, *, all_rows: bool = True) -> bool:
    """Whether so many targets in all have exact leverages; `all_rows`: they are what is trained on, no sample of it."""
    few = all_rows and num_targets <= MOST_ROWS and num_targets * num_weights <= MOST_GRADIENTS
    return num_weights <= MOST_WEIGHTS or few


def leverages(
    net: BayesianModule,
    prediction: RealPrediction,
    x: Inputs,
    weight: Tensor | None = None,
    *,
    temperature: float,
    num_data: int,
) -> Tensor:
    """(n, k) of the rows `x`, a random sample of the training data, `prediction` at these; `weight` (n,) has mean 1.

    A row of weight 2 is two rows: its leverage is that of either.
    """
    noise, at = wide(prediction.aleatoric_sd), net.posterior.mean.detach()
    if has_leverages(net.num_weights, noise.numel(), all_rows=len(noise) == num_data):
        return leverages_at(at, net, x, noise, weight, temperature=temperature, num_data=num_data)
    found = _by_sample(at, net, x, noise, weight, temperature=temperature, num_data=num_data)
    if found is not None:
        return found
    assert prediction.samples is not None
    each = wide(prediction.samples).var(0) / noise.square() / temperature
    spread = mean_over_rows(each.clamp_max(1.0), weight).clamp_max(net.num_weights / num_data)
    least = spread.clamp_max(_sampled(net.num_weights, *noise.shape) / num_data)
    return (least * spread).sqrt().expand_as(each)


def leverages_at(
    weights: Tensor,
    net: BayesianModule,
    x: Inputs,
    noise: Tensor,
    weight: Tensor | None,
    *,
    temperature: float,
    num_data: int,
) -> Tensor:
    """The same to first order around `weights` (N,), for the noise (n, k) of each target."""
    jacobian = (_jacobian(net, weights, x) / noise.unsqueeze(-1)).flatten(0, 1)  # (n k, N)
    num_rows, num_targets = noise.shape
    counts = noise.new_ones(num_rows) if weight is None else wide(weight).to(noise)
    counts = (counts * (num_data / num_rows)).repeat_interleave(num_targets)
    precision = temperature / wide(net.prior.sd).square()
    by_rows = len(jacobian) < net.num_weights and num_rows == num_data
    found = (_over_rows if by_rows else _over_weights)(jacobian, counts, precision)
    return found.view(num_rows, num_targets)


def _sampled(num_weights: int, num_rows: int, num_targets: int) -> int:
    """How many of the rows at hand a sample's matrix is made of."""
    by_size = MOST_SAMPLED, SAMPLED_GRADIENTS // num_weights, math.isqrt(MOST_PRODUCTS // num_weights)
    return min(num_rows, min(by_size) // num_targets)


def _by_sample(
    at: Tensor,
    net: BayesianModule,
    x: Inputs,
    noise: Tensor,
    weight: Tensor | None,
    *,
    temperature: float,
    num_data: int,
) -> Tensor | None:
    """Those of a sample of more rows, beyond those that it takes their mean; None where it has too few of them."""
    targets = noise.shape[1]
    count = _sampled(net.num_weights, *noise.shape)
    if count * targets < FEWEST_SAMPLED:
        return None
    counts = noise.new_ones(count) if weight is None else wide(weight[:count]).to(noise)
    counts = counts.repeat_interleave(targets)
    there = counts > 0
    # In the precision that gradients have: half of the time and memory, and eigenvalues that small do not matter.
    scaled = _jacobian(net, at, inputs.take(x, slice(count)), precise=False).flatten(0, 1)[there]
    scaled *= (counts.sqrt() / noise[:count].flatten() / temperature**0.5)[there].to(scaled).unsqueeze(1)
    scaled *= net.prior.sd.to(scaled)
    kernel = wide(torch.matmul(scaled, scaled.T))
    ridge = matching_ridge(torch.linalg.eigvalsh(kernel), num_data * targets * float(there.double().mean()))
    if ridge is None:
        return None
    kernel.diagonal().add_(ridge)
    left_open = 1 / torch.cholesky_inverse(torch.linalg.cholesky(kernel)).diagonal() - ridge
    each = torch.zeros_like(counts)
    each[there] = left_open / (1 + left_open) / counts[there]
    each = each.view(count, targets)
    rest = mean_over_rows(each, None if weight is None else weight[:count])
    return torch.cat([each, rest.expand(len(noise) - count, targets)])


def matching_ridge(eigenvalues: Tensor, num_targets: float) -> float | None:
    """The noise with which the targets of this kernel act like `num_targets` with noise 1, if there is one."""
    u = eigenvalues.clamp_min(0)
    least = ROUNDING * float(u.mean())

    def excess(log_ridge: float) -> float:
        return float(((1 + u) / (u + math.exp(log_ridge))).sum()) - num_targets

    if not least > 0 or excess(math.log(least)) < 0:
        return None
    return math.exp(brentq(excess, math.log(least), 1.0))


def _over_weights(jacobian: Tensor, counts: Tensor, precision: Tensor) -> Tensor:
    curvature = torch.matmul(jacobian.T, jacobian * counts.unsqueeze(1))
    curvature.diagonal().add_(precision)
    curvature.diagonal().add_(ROUNDING * curvature.diagonal().mean())  # a wide prior holds nothing
    half: Tensor = torch.linalg.solve_triangular(torch.linalg.cholesky(curvature), jacobian.T, upper=False)
    return half.square().sum(0)


def _over_rows(jacobian: Tensor, counts: Tensor, precision: Tensor) -> Tensor:
    scaled = jacobian * counts.sqrt().unsqueeze(1)
    kernel = torch.matmul(scaled / precision, scaled.T)
    kernel.diagonal().add_(1.0 + ROUNDING * kernel.diagonal().mean())
    left = torch.cholesky_inverse(torch.linalg.cholesky(kernel)).diagonal()
    return torch.where(counts > 0, (1 - left) / counts, 0.0)


def _jacobian(net: BayesianModule, at: Tensor, x: Inputs, *, precise: bool = True) -> Tensor:
    """(n, k, N), in double precision if `precise`, of the targets' means at the weights `at`."""
    weights = at.clone().requires_grad_()
    likelihood, rows = net.likelihood, []
    assert isinstance(likelihood, GaussianNoise)
    with torch.enable_grad():
        for first in range(0, inputs.count(x), ROWS):
            with net.hosted(net.layout.views(weights)) as model:
                outputs = inputs.call(model, inputs.take(x, slice(first, first + ROWS)))
                means = likelihood.moments(outputs.unsqueeze(0))[0].flatten()
            found = _gradients(means, weights)
            rows.append(wide(found) if precise else found)
    return torch.cat(rows).view(inputs.count(x), -1, len(weights))


def _gradients(values: Tensor, weights: Tensor) -> Tensor:
    """(m, N) of each of the m `values`."""
    each = torch.eye(len(values), dtype=values.dtype, device=values.device)
    try:
        return torch.autograd.grad(values, weights, each, is_grads_batched=True, retain_graph=True)[0]
    except RuntimeError:  # what vmap has no rule for
        return torch.stack([torch.autograd.grad(values, weights, one, retain_graph=True)[0] for one in each])
