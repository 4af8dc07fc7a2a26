"""Leverages: how far a network follows each of the targets that it was trained on.

A residual r of the training is smaller than that of a datum which was left out, r / (1 - h), with the leverage h of the
datum: exactly so where the network is linear. To first order around the mean of q, for targets z with noise s,
J = dz / dw, at the temperature T,

    h_n = J_n C J_n^T / s_n^2,    C = (sum_n J_n^T J_n / s_n^2 + T / prior variance)^-1              (Gauss-Newton)

That is a matrix (N, N): of networks with more than MOST_WEIGHTS the spread of the outputs under q serves instead,

    h = mean_n min(1, Var_q[z_n] / (T s_n^2)),  at most N / n,  one for all rows

which is the same where q has all correlations, and larger in a mean-field network, which counts each weight as one
degree of freedom, whatever the others do. Limits: a linear network without a prior has h = N / n on average.
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
ROUNDING = 1e-10  # of the mean curvature, that directions without any are given
ROWS = 50  # whose gradients are taken from one pass


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
    if net.num_weights <= MOST_WEIGHTS:
        noise = wide(prediction.aleatoric_sd)
        return _by_gradients(net, x, noise, weight, temperature=temperature, num_data=num_data)
    assert prediction.samples is not None
    each = wide(prediction.samples).var(0) / wide(prediction.aleatoric_sd).square() / temperature
    return mean_over_rows(each.clamp_max(1.0), weight).clamp_max(net.num_weights / num_data).expand_as(each)


def _by_gradients(
    net: BayesianModule, x: Inputs, noise: Tensor, weight: Tensor | None, *, temperature: float, num_data: int
) -> Tensor:
    jacobian = _jacobian(net, x) / noise.unsqueeze(-1)  # (n, k, N)
    flat = jacobian.flatten(0, 1)
    counted = flat if weight is None else (jacobian * wide(weight).view(-1, 1, 1)).flatten(0, 1)
    precision = torch.matmul(flat.T, counted) * (num_data / len(noise))
    precision.diagonal().add_(temperature / wide(net.prior.sd).square())
    precision.diagonal().add_(ROUNDING * precision.diagonal().mean())  # a wide prior holds nothing
    half: Tensor = torch.linalg.solve_triangular(torch.linalg.cholesky(precision), flat.T, upper=False)  # (N, n k)
    return half.square().sum(0).view(len(noise), -1)


def _jacobian(net: BayesianModule, x: Inputs) -> Tensor:
    """(n, k, N), in double precision, of the targets' means at q's mean."""
    weights = net.posterior.mean.detach().clone().requires_grad_()
    likelihood, rows = net.likelihood, []
    assert isinstance(likelihood, GaussianNoise)
    with torch.enable_grad():
        for at in range(0, inputs.count(x), ROWS):
            with net.hosted(net.layout.views(weights)) as model:
                outputs = inputs.call(model, inputs.take(x, slice(at, at + ROWS)))
                means = likelihood.moments(outputs.unsqueeze(0))[0].flatten()
            rows += [torch.autograd.grad(mean, weights, retain_graph=True)[0] for mean in means]
    return wide(torch.stack(rows)).view(inputs.count(x), -1, len(weights))
