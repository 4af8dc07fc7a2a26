"""Leverages: how far a network follows each of the targets that it was trained on.

A residual r of the training is smaller than that of a datum which was left out, r / (1 - h), with the leverage h of the
datum: exactly so where the network is linear. To first order around the mean of q, for targets z with noise s,
J = dz / dw / s, prior variances V, at the temperature T,

    h_n = J_n C J_n^T,    C = (J^T J + T V^-1)^-1                                                    (Gauss-Newton)
    1 - h = diag (K + 1)^-1,    K = J V J^T / T                                              (the same, over the rows)

The first is a matrix (N, N), of networks with up to MOST_WEIGHTS; the second one (n, n), of up to MOST_ROWS rows that
are all that were trained on. Beyond both the spread of the outputs under q serves instead,

    h = mean_n min(1, Var_q[z_n] / (T s_n^2)),  at most N / n,  one for all rows

which is the same where q has all correlations, and larger in a mean-field network, which counts each weight as one
degree of freedom, whatever the others do. Limits: a linear network without a prior has h = N / n on average; one with
more weights than rows and no prior follows them all the way, h = 1.
"""

from __future__ import annotations

import torch
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
    """(n, k) of the rows `x` of the training data, `prediction` at these; `weight` (n,) has mean 1.

    A row of weight 2 is two rows: its leverage is that of either.
    """
    noise = wide(prediction.aleatoric_sd)
    if has_leverages(net.num_weights, noise.numel(), all_rows=len(noise) == num_data):
        at = net.posterior.mean.detach()
        return leverages_at(at, net, x, noise, weight, temperature=temperature, num_data=num_data)
    assert prediction.samples is not None
    each = wide(prediction.samples).var(0) / noise.square() / temperature
    return mean_over_rows(each.clamp_max(1.0), weight).clamp_max(net.num_weights / num_data).expand_as(each)


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


def _jacobian(net: BayesianModule, at: Tensor, x: Inputs) -> Tensor:
    """(n, k, N), in double precision, of the targets' means at the weights `at`."""
    weights = at.clone().requires_grad_()
    likelihood, rows = net.likelihood, []
    assert isinstance(likelihood, GaussianNoise)
    with torch.enable_grad():
        for first in range(0, inputs.count(x), ROWS):
            with net.hosted(net.layout.views(weights)) as model:
                outputs = inputs.call(model, inputs.take(x, slice(first, first + ROWS)))
                means = likelihood.moments(outputs.unsqueeze(0))[0].flatten()
            rows.append(wide(_gradients(means, weights)))
    return torch.cat(rows).view(inputs.count(x), -1, len(weights))


def _gradients(values: Tensor, weights: Tensor) -> Tensor:
    """(m, N) of each of the m `values`."""
    each = torch.eye(len(values), dtype=values.dtype, device=values.device)
    try:
        return torch.autograd.grad(values, weights, each, is_grads_batched=True, retain_graph=True)[0]
    except RuntimeError:  # what vmap has no rule for
        return torch.stack([torch.autograd.grad(values, weights, one, retain_graph=True)[0] for one in each])
