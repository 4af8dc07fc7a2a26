"""The nll and the gradient of the KL, by estimator of the pass and by kind of gradient.

With w ~ q, c the KL's factor and L = nll + c (log q(w) - log prior(w)), all four have the expectation grad E_q L:

    analytic   grad nll(w(mean, sd)) + c grad KL           the KL in closed form (or by quadrature)
    total      grad L, through w and through q's own parameters in log q(w)
    path       grad L, through w alone: q's parameters inside log q are detached [1]
    score      (L - b) grad log q(w), with w detached      b a baseline that does not depend on w

Limits: at q = exact posterior, path's gradient is 0 for every w, total's only on average. The score does not need a
network that is differentiable in its weights. Deterministic weights and the likelihood's parameters have their
ordinary gradient in all four. `path` and `total` differ from `analytic` in the KL alone: with `flipout` it is that of
the batch's weight sample, with `local` that of one drawn for it.

[1] Roeder, Wu, Duvenaud, Sticking the landing, 2017.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from posterity.bayesian import BayesianModule
from posterity.core.errors import UsageError, unknown_name
from posterity.core.inputs import Inputs
from posterity.estimators import ESTIMATORS, LINEAR_RULES, SAMPLE, random_outputs
from posterity.likelihoods import Likelihood
from posterity.objectives.baseline import BASELINES, LEAVE_ONE_OUT, MOVING, MovingBaseline, leave_one_out
from posterity.objectives.pairs import draw_with_kl, moments_with_kl
from posterity.posteriors import Posterior
from posterity.priors import Prior

ANALYTIC, TOTAL, PATH, SCORE = "analytic", "total", "path", "score"
GRADIENTS = (ANALYTIC, TOTAL, PATH, SCORE)
Module = TypeVar("Module", bound=nn.Module)


@dataclass(frozen=True)
class Estimate:
    """nll, the outputs (S, n, K) it is of, and the KL; of a Monte Carlo kind also the drawn `weights` (S, N).

    A KL that does not count may be left out.
    """

    nll: Tensor
    outputs: Tensor
    kl: Tensor | None
    weights: Tensor | None = None


def check_estimate(estimator: str, gradient: str | None, baseline: str | None, samples: int) -> None:
    """Refuse unknown names and what does not go together."""
    for kind, name, known in (
        ("estimator", estimator, ESTIMATORS),
        ("gradient", gradient, GRADIENTS),
        ("baseline", baseline, BASELINES),
    ):
        if name is not None and name not in known:
            raise unknown_name(kind, name, known)
    if gradient == SCORE and estimator != SAMPLE:
        raise UsageError(
            f"the score needs log q of the weights that gave the output; '{estimator}' has other weights for each "
            "example, and gives none of them: take estimator 'sample', or gradient 'analytic', 'path' or 'total'"
        )
    if baseline is not None and gradient != SCORE:
        raise UsageError(f"a baseline ('{baseline}') is for gradient 'score', not '{gradient or ANALYTIC}'")
    if baseline == LEAVE_ONE_OUT and samples < 2:
        raise UsageError(f"leave_one_out compares weight samples: it needs at least 2 of them, not {samples}")


def estimate(
    net: BayesianModule,
    likelihood: Likelihood,
    x: Inputs,
    y: Tensor,
    *,
    weight: Tensor | None = None,
    samples: int,
    estimator: str,
    gradient: str | None,
    baseline: str | MovingBaseline | None,
    counts: bool = True,
) -> Estimate:
    """One random estimate for the batch `x`, `y`, its data weighted by `weight` (n,); whether the KL `counts` there."""
    name = MOVING if isinstance(baseline, MovingBaseline) else baseline
    if not (estimator == SAMPLE and gradient is None and name is None):
        check_estimate(estimator, gradient, name, samples)
    kind = kind_of(net.posterior, net.prior, estimator, gradient)
    if kind == SCORE:
        return _score(net, likelihood, x, y, weight, samples, baseline)
    rule = LINEAR_RULES.get(estimator) if net.posterior.random else None
    if rule is None and kind == ANALYTIC:
        views, kl = draw_with_kl(net, samples, counts=counts)
        outputs = net.outputs(x, views=views)
        return Estimate(likelihood.nll(outputs, y, weight), outputs, kl)
    if kind == ANALYTIC:
        assert rule is not None
        means, sds, kl = moments_with_kl(net)
        noise = net.noise(samples) if rule.perturbs else None
        outputs = random_outputs(net, rule, x, means=means, sds=sds, noise=noise, samples=samples)
        return Estimate(likelihood.nll(outputs, y, weight), outputs, kl)
    noise = net.noise(samples)
    if rule is None:
        weights = net.posterior.sample(noise)
        outputs = net.outputs(x, weights=weights[0] if samples == 1 else weights)
    else:
        mean, sd = net.posterior.mean, net.posterior.sd
        weights = torch.addcmul(mean, sd, noise)
        means, sds = mean.split(net.layout.sizes), sd.split(net.layout.sizes)
        used = noise if rule.perturbs else None
        outputs = random_outputs(net, rule, x, means=means, sds=sds, noise=used, samples=samples)
    q = frozen(net.posterior) if kind == PATH else net.posterior
    kl = sampled_kl(q, net.prior, weights).mean()
    return Estimate(likelihood.nll(outputs, y, weight), outputs, kl, weights.detach())


def kind_of(posterior: Posterior, prior: Prior, estimator: str, gradient: str | None) -> str:
    """The kind of gradient that is taken, by default the first there is; refused where these two do not have it."""
    if estimator != SAMPLE and posterior.random and not posterior.independent:
        raise UsageError(
            f"'{estimator}' needs weights that are independent under q; a {posterior.kind} posterior's are not: "
            "take estimator 'sample'"
        )
    closed = posterior.has_kl(prior)
    if gradient is None:
        return ANALYTIC if closed else PATH
    if gradient != ANALYTIC and not posterior.random:
        raise UsageError(f"a {posterior.kind} posterior has no density: its gradient is 'analytic', not '{gradient}'")
    if gradient == ANALYTIC and not closed:
        raise UsageError(
            f"there is no closed-form KL from a {posterior.kind} posterior to a {prior.kind} prior: take "
            "gradient 'path' or 'total'"
        )
    return gradient


def _score(
    net: BayesianModule,
    likelihood: Likelihood,
    x: Inputs,
    y: Tensor,
    weight: Tensor | None,
    samples: int,
    baseline: Any,
) -> Estimate:
    weights = net.draw(samples).detach()
    outputs = net.outputs(x, weights=weights[0] if samples == 1 else weights)
    nll = torch.stack([likelihood.nll(each.unsqueeze(0), y, weight) for each in outputs])  # (S,)
    log_q = net.posterior.log_density(weights)
    kl = (log_q - net.prior.log_density(weights)).detach()
    costs = {"nll": nll.detach(), "kl": kl}
    if baseline == LEAVE_ONE_OUT:
        shifted = {name: cost - leave_one_out(cost) for name, cost in costs.items()}
    elif isinstance(baseline, MovingBaseline):
        shifted = {name: cost - baseline.next(name, cost) for name, cost in costs.items()}
    elif baseline is None:
        shifted = costs
    else:
        raise UsageError("a moving baseline lives from call to call: make one MovingBaseline() and give it each time")
    handles = {name: (cost * log_q).mean() for name, cost in shifted.items()}
    by_nll, by_kl = (handle - handle.detach() for handle in (handles["nll"], handles["kl"]))
    return Estimate(nll.mean() + by_nll, outputs, kl.mean() + by_kl, weights)


def sampled_kl(posterior: Posterior, prior: Prior, weights: Tensor) -> Tensor:
    """log q(w) - log prior(w) (S,) for `weights` (S, N): its mean over w ~ q is the KL."""
    return posterior.log_density(weights) - prior.log_density(weights)


def frozen(posterior: Module) -> Module:
    """The same distribution, its parameters detached, also those of its components."""
    copied = copy.copy(posterior)
    copied.__dict__["_parameters"] = {n: p if p is None else p.detach() for n, p in posterior._parameters.items()}
    copied.__dict__["_modules"] = {n: m if m is None else frozen(m) for n, m in posterior._modules.items()}
    return copied
