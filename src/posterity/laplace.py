"""Laplace's approximation: a trained network made Bayesian without training it again.

    q = N(w*, H^-1),    H = G / temperature + a P

w* are the network's weights, G the Gauss-Newton curvature of the summed nll there (posterity.curvature), P the diagonal
precision of a Gaussian prior N(m, P^-1), a > 0 a factor on it. Structures:

    diagonal      every weight by itself, q mean-field: variance_i = 1 / H_ii
    last_layer    the last linear layer alone, q full; the layers before it stay as they are

The evidence of a is Laplace's approximation of log of the integral of P(y | w)^(1 / temperature) prior(w). With g the
eigenvalues of P^-1/2 G P^-1/2 / temperature and d = (w* - m)^T P (w* - m), up to what does not depend on a,
    log evidence(a) = -1/2 [ a d + sum_i log(1 + g_i / a) ]
and it is greatest where  a d = sum_i g_i / (g_i + a)  (MacKay 1992): the left side grows with a, the right one falls,
so that there is one such a. The right side counts the weights that the data determine.

The temperature is by default the highest of 1, 1/2, 1/4, ... at which q keeps to where its quadratic holds. A pair of
weights of q, w* + d and w* - d, gives outputs f* + e, and the data's nll rises as its curvature L at f* says:

    1 / HELD <= sum [nll(f* + e) - nll(f*)] / sum [e^T L e / 2] <= HELD,    sums over a pair and at most CHECKED rows

in the median of DRAWS pairs: their mean would be that of the few farthest. The ratio is 1 for Gaussian noise on a last
layer, whose temperature stays 1. A classifier that was trained until its probabilities are 0 and 1 has next to no
curvature left, so that at T = 1 q is nearly the prior, wide enough to forget all that the network learnt: there the
ratio is above a hundred, and the temperature falls to 0.01 or less.

Limits: of a linear network with Gaussian noise q is the exact posterior, if w* is its mean (last_layer, or one weight);
no data (G = 0) gives the prior's precision.

Daxberger et al., Laplace redux, 2021; Ritter et al., A scalable Laplace approximation for neural networks, 2018.
"""

from __future__ import annotations

import bisect
import copy
import math
import statistics

import torch
from torch import Tensor, nn

from posterity.bayesian import BayesianModule, bayesian
from posterity.core import inputs
from posterity.core.errors import UsageError, unknown_name
from posterity.core.layout import Layout
from posterity.core.randomness import fresh_seed, generator
from posterity.core.scale import rho_of
from posterity.curvature import Curvature, output_factors
from posterity.data import Dataset
from posterity.likelihoods import Likelihood
from posterity.posteriors import Full, MeanField, Posterior
from posterity.prediction import BATCH_SIZE
from posterity.priors import FlatGaussian, PriorRule
from posterity.training.fitting_data import Data, as_dataset, check_fit, default_likelihood
from posterity.training.standardising import standardised

DIAGONAL, LAST_LAYER = STRUCTURES = ("diagonal", "last_layer")
AUTO = "auto"
HALVINGS = 100  # of the interval in which log a is sought
HELD, DRAWS, CHECKED = 2.0, 32, 500
HALVED = 20  # times at most: the network is then as good as without a posterior


def laplace(
    net: nn.Module,
    data: Data,
    *,
    structure: str = LAST_LAYER,
    prior: PriorRule | float | str | None = None,
    fit_prior: bool | None = None,
    temperature: float | str = AUTO,
    likelihood: Likelihood | None = None,
    rows: int | None = None,
    batch_size: int = BATCH_SIZE,
    seed: int | None = None,
) -> BayesianModule:
    """A Bayesian network around a trained one, which is copied; `data` is what it was trained on.

    `net` is a plain module, or a Bayesian network with a point posterior, whose prior and likelihood then count. The
    likelihood follows from the task as in `fit`; a learnt noise that is not the network's own is that of the residuals.
    `structure` is "last_layer" (a full posterior over the last linear layer), to predict with, or "diagonal" (a
    mean-field one over all weights), which is a start for `fit`, and at temperature 1 as a rule too wide to predict
    with. `fit_prior` chooses one factor for the prior's scale by the evidence; by default it does where the prior was
    not chosen, here or with the network. `temperature` is a number, 1 for Bayes' rule, or "auto", see the header.
    `rows` takes the curvature from that many of the data, at random, for all.
    """
    _check(structure, temperature, rows, batch_size)
    seed = fresh_seed() if seed is None else seed
    fit_prior = prior is None and not isinstance(net, BayesianModule) if fit_prior is None else fit_prior
    point = _as_point(net, prior, seed)
    given, scale = likelihood or point.likelihood, point.standardisation
    data = as_dataset(data, point, given) if scale is None else standardised(data, scale, point, given)
    _check_data(data)
    point.likelihood = copy.deepcopy(given or default_likelihood(data)).to(point.posterior.mean)
    check_fit(point, point.likelihood, data)
    curvature = Curvature(point, point.likelihood, batch_size=batch_size)
    if likelihood is not None or given is None:
        point.likelihood.adapt(curvature.outputs(data.x).unsqueeze(0), data.y, 1.0)
    part, factor = _part(data, rows, seed)
    if structure == LAST_LAYER:
        names, hessian = curvature.last_layer(part.x, part.y)
    else:
        names, hessian = point.layout.names, curvature.diagonal(part.x, part.y)
    hessian = hessian * factor
    values = _relative(point, names, hessian) if fit_prior else None

    def at(temperature: float) -> BayesianModule:
        of_prior = None if values is None else values / temperature
        return _around(point, names, hessian / temperature, of_prior, seed=seed)

    def holds(halvings: int) -> bool:
        return _holds(at(0.5**halvings), shown, batch_size, seed)

    if not isinstance(temperature, str):
        return at(temperature)
    shown = _part(part, CHECKED, seed)[0]
    return at(0.5 ** (0 if holds(0) else bisect.bisect_left(range(1, HALVED), True, key=holds) + 1))


@torch.no_grad()
def _holds(net: BayesianModule, data: Dataset, batch_size: int, seed: int) -> bool:
    """Whether the data's nll rises within q as its curvature at the mean says, to a factor of HELD in the median."""
    net, draws = copy.deepcopy(net).eval(), generator(seed, "laplace check")
    q, likelihood = net.posterior, net.likelihood
    assert likelihood is not None

    def outputs(weights: Tensor) -> Tensor:
        return torch.cat([net.call(weights, part) for part in data.x.split(batch_size)]).double()

    still = outputs(q.mean)
    factors = output_factors(likelihood, still, data.y)
    ratios = []
    for _ in range(DRAWS):
        away = q.sample(torch.randn(q.noise_size, generator=draws).to(q.mean)) - q.mean
        moved = [outputs(weights) for weights in (q.mean + away, q.mean - away)]
        expected = sum(0.5 * torch.matmul(factors.mT, (f - still).unsqueeze(-1)).square().sum() for f in moved)
        nll = [-likelihood.log_prob(f.unsqueeze(0), data.y).sum() for f in (still, *moved)]
        ratios.append(float((nll[1] + nll[2] - 2 * nll[0]) / expected))
    return 1 / HELD <= statistics.median(ratios) <= HELD


def _check(structure: str, temperature: float | str, rows: int | None, batch_size: int) -> None:
    if structure not in STRUCTURES:
        raise unknown_name("structure", structure, STRUCTURES)
    if isinstance(temperature, str):
        if temperature != AUTO:
            raise unknown_name("temperature (or give a number)", temperature, (AUTO,))
    elif not (math.isfinite(temperature) and temperature > 0):
        raise UsageError(f"the temperature must be a positive number, not {temperature}")
    for name, value in (("rows", rows), ("batch_size", batch_size)):
        if value is not None and value < 1:
            raise UsageError(f"{name} must be at least 1, not {value}")


def _check_data(data: Dataset) -> None:
    if inputs.several(data.x):
        raise UsageError("laplace takes networks with one input; this one's has several")
    if data.weight is not None:
        raise UsageError("laplace knows no weights of rows: give each row as often as it counts, without weights")


def _as_point(net: nn.Module, prior: PriorRule | float | str | None, seed: int) -> BayesianModule:
    """A copy of the network with a point posterior and a Gaussian prior."""
    if not isinstance(net, BayesianModule):
        point = bayesian(net, prior=prior, posterior="point", seed=seed)
    elif net.posterior.random:
        raise UsageError(
            f"laplace takes a plain network or one with a point posterior; this one's is {net.posterior.kind} already"
        )
    elif prior is not None:
        raise UsageError(f"the network has a prior of its own ({net.prior.kind}): leave out prior")
    else:
        point = copy.deepcopy(net)
    if type(point.prior) is not FlatGaussian:
        raise UsageError(f"laplace needs a Gaussian prior, whose curvature is constant, not a {point.prior.kind} one")
    return point


def _part(data: Dataset, rows: int | None, seed: int) -> tuple[Dataset, float]:
    """The rows whose curvature is taken, and how many of the data each stands for."""
    if rows is None or rows >= len(data):
        return data, 1.0
    return data.sample(rows, generator(seed, "laplace rows")), len(data) / rows


def _relative(point: BayesianModule, names: list[str], hessian: Tensor) -> Tensor:
    """Eigenvalues (M,) of P^-1/2 `hessian` P^-1/2, for the prior's precision P of the weights `names`."""
    precision = _restricted(point, _layout(point, names))[1].precision.double()
    scales = precision.rsqrt()
    return hessian / precision if hessian.dim() == 1 else _eigenvalues(hessian * scales * scales.unsqueeze(1))


def _around(
    point: BayesianModule, names: list[str], hessian: Tensor, values: Tensor | None, *, seed: int
) -> BayesianModule:
    """The network whose weights `names` have this `hessian` of nll / temperature: a matrix, or its diagonal.

    With its eigenvalues relative to the prior's precision the prior's scale is that of the largest evidence.
    """
    model, layout = _plain(point), _layout(point, names)
    weights, prior = _restricted(point, layout)
    precision, apart = prior.precision.double(), (weights - prior.mean).double()
    if values is not None:
        precision = precision * evidence_factor(values, float((apart.square() * precision).sum()))
        prior = FlatGaussian(precision.rsqrt().to(weights), prior.centre)
    q: Posterior
    if hessian.dim() == 1:
        q = MeanField(weights, rho_of((hessian + precision).rsqrt()).to(weights))
    else:
        q = Full.of_precision(weights, hessian + precision.diag())
    # Its module is a copy of the point's, and reads its output already.
    made = BayesianModule(model, layout, q, prior, likelihood=point.likelihood, seed=seed)
    made.output, made.standardisation = point.output, point.standardisation
    return made


def _plain(point: BayesianModule) -> nn.Module:
    """The module that it was made of, with the point as its weights."""
    copied = copy.deepcopy(point)
    views = copied.layout.views(copied.posterior.mean.detach())
    for name, places in copied._host.places.items():
        parameter = nn.Parameter(views[name].clone())
        for module, attribute in places:
            module._parameters[attribute] = parameter
    return copied.model


def _layout(point: BayesianModule, names: list[str]) -> Layout:
    return Layout(tuple(e for e in point.layout.entries if e.name in names))


def _restricted(point: BayesianModule, layout: Layout) -> tuple[Tensor, FlatGaussian]:
    """Weights (M,) and prior of some of the weight tensors."""
    prior = point.prior

    def some(vector: Tensor) -> Tensor:
        return layout.flatten(point.layout.views(vector))

    assert isinstance(prior, FlatGaussian)
    centre = None if prior.centre is None else some(prior.centre)
    return some(point.posterior.mean.detach()), FlatGaussian(some(prior.sd), centre)


def _eigenvalues(matrix: Tensor) -> Tensor:
    """Of a matrix that has no negative ones but by rounding."""
    values: Tensor = torch.linalg.eigvalsh(matrix)
    return values.clamp_min(0)


def evidence_factor(values: Tensor, distance: float) -> float:
    """The a that maximises the evidence, for the eigenvalues g (N,) and d = `distance`, by halving of log a."""
    largest = float(values.max())
    if not (largest > 0 and distance > 0):
        why = "the weights are the prior's mean" if largest > 0 else "the data say nothing of the weights"
        raise UsageError(f"no prior scale has the largest evidence, as {why}: give a prior, and fit_prior=False")
    # At the lower end the right side is at least 1/2 and the left one at most that; at the upper end it is the reverse.
    low, high = math.log(min(largest, 0.5 / distance)), math.log(len(values) / distance)
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        a = math.exp(middle)
        if a * distance < float((values / (values + a)).sum()):
            low = middle
        else:
            high = middle
    return math.exp(0.5 * (low + high))
