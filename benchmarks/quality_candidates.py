"""The approximations that posterior_quality.py compares with NUTS, and how each is trained.

A candidate is settings for `bayesian` and for `fit`, and what of the outcome is looked at:

    net        the trained network
    averaged   the averaged one, `result.averaged`
    chain      what a training that begins at the MAP collects in its second half, THIN_TO weight vectors
    ensemble   MEMBERS networks trained from different starts: a `samples` posterior

A setting that this version of the library does not know is the reason for which a candidate is left out.
Training is full-batch, so that the only noise is that of the weight samples. What was optimised tells a family that
cannot do better from a training that did not get there:

    loss = E_q[-log P(y | w)] / T + KL(q, prior), in nats
"""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

import posterity as pt
from posterity.objectives import kl_divergence
from posterity.posteriors import LowRank, MeanField, Samples
from quality_problems import Problem

DRAWS = 1000  # weight samples in a predictive
MEMBERS = 5
THIN_TO = 500  # weight vectors kept of a chain
STEPS, CHAIN_STEPS = 5000, 10000
FACTS = ("seconds", "loss")


@dataclass(frozen=True)
class Candidate:
    """One approximation; `temperature` is also that of the posterior it aims at."""

    label: str
    kind: str = "net"
    build: Mapping[str, Any] = field(default_factory=dict)
    fit: Mapping[str, Any] = field(default_factory=dict)
    temperature: float = 1.0
    steps: int = STEPS
    rates: Mapping[str, float] = field(default_factory=dict)  # by problem, where one does not suit both

    def key(self, problem: Problem, seed: int) -> str:
        """Names its result in the cache: changes with any setting."""
        what = [asdict(self), problem.name, problem.hidden, seed, DRAWS, MEMBERS, THIN_TO, pt.__version__]
        return hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()[:16]


VARIATIONAL: dict[str, Any] = {"lr": 0.1, "samples": 8}
POINT: dict[str, Any] = {"lr": 0.05}
AVERAGED: dict[str, Any] = {
    **VARIATIONAL, "schedule": "constant", "average_start": 0.5, "average_every": 10,
}  # fmt: skip
START = {"relative_sd": 0.1}


def _mean_field(label: str, temperature: float = 1.0, **fit: Any) -> Candidate:
    return Candidate(label, build=START, fit={**VARIATIONAL, **fit}, temperature=temperature)


def _averaged(label: str, **fit: Any) -> Candidate:
    return Candidate(label, "averaged", build=START, fit={**AVERAGED, **fit})


def _low_rank(rank: int) -> Candidate:
    return Candidate(f"low-rank, R = {rank}", build={**START, "posterior": "low_rank", "rank": rank}, fit=VARIATIONAL)


def _ivon(temperature: float) -> Candidate:
    # The default beta2 is for far longer trainings; the rate is that of a Newton step, whatever the first curvature.
    options = {"beta2": 0.99, "rescale_lr": False}
    fit = {"optimizer": "ivon", "lr": 0.1, "samples": 8, "optimizer_options": options}
    label = "IVON" if temperature == 1 else f"IVON, T = {temperature:g}"
    return Candidate(label, build={"relative_sd": 0.01}, fit=fit, temperature=temperature)


def _chain(label: str, optimizer: str, **rates: float) -> Candidate:
    every = CHAIN_STEPS // 2 // THIN_TO
    fit = {"optimizer": optimizer, "schedule": "constant", "average_start": 0.5, "average_every": every}
    rates = {name.replace("_", "-"): rate for name, rate in rates.items()}
    return Candidate(label, "chain", {"posterior": "point"}, fit, steps=CHAIN_STEPS, rates=rates)


MAP = Candidate("point (MAP)", build={"posterior": "point"}, fit=POINT)
CANDIDATES = (
    MAP,
    Candidate(f"ensemble of {MEMBERS} MAP", "ensemble", {"posterior": "point"}, POINT),
    _chain("SGLD", "sgld", gap=3e-6, two_moons=1e-3),
    _chain("preconditioned SGLD", "psgld", gap=1e-4, two_moons=1e-4),
    _mean_field("mean-field"),
    _mean_field("mean-field, T = 0.3", 0.3),
    _mean_field("mean-field, T = 0.1", 0.1),
    _ivon(1.0),
    _ivon(0.3),
    _ivon(0.1),
    _mean_field("mean-field, local", estimator="local"),
    _mean_field("mean-field, flipout", estimator="flipout"),
    _mean_field("mean-field, total gradient", gradient="total"),
    _mean_field("mean-field, path gradient", gradient="path"),
    _mean_field("mean-field, score gradient", gradient="score"),
    _low_rank(5),
    _low_rank(20),
    _averaged("SWA", average="swa"),
    *(_averaged(f"HWA, {c.replace('_', '-')}", average="hwa", covariance=c)
      for c in ("snapshot", "posterior", "total", "low_rank")),
)  # fmt: skip


def train(candidate: Candidate, problem: Problem, seed: int) -> pt.BayesianModule:
    """The network whose predictive is looked at."""
    if candidate.kind == "ensemble":
        members = [_fit(candidate, problem, MEMBERS * seed + member).net for member in range(MEMBERS)]
        return bag(members[0], torch.stack([net.posterior.mean.detach() for net in members]))
    start = _fit(MAP, problem, seed).net if candidate.kind == "chain" else None
    result = _fit(candidate, problem, seed, start)
    if candidate.kind == "net":
        return result.net
    if result.averaged is None:
        raise pt.UsageError("the training gave no averaged network")
    return result.averaged


def _fit(candidate: Candidate, problem: Problem, seed: int, start: pt.BayesianModule | None = None) -> pt.FitResult:
    net = start or problem.network(seed, **candidate.build)
    settings = {"epochs": candidate.steps, "batch_size": len(problem.train), "seed": seed, **candidate.fit}
    if problem.name in candidate.rates:
        settings["lr"] = candidate.rates[problem.name]
    return pt.fit(net, problem.train, temperature=candidate.temperature, **settings)


@torch.no_grad()
def loss(net: pt.BayesianModule, problem: Problem, temperature: float) -> float:
    """What a variational training minimises, from DRAWS samples; NaN for points and sets of samples."""
    if not isinstance(net.posterior, MeanField | LowRank) or net.likelihood is None:
        return math.nan
    noise = torch.randn(DRAWS, net.posterior.noise_size, generator=torch.Generator().manual_seed(0))
    weights = net.posterior.sample(noise)
    log_prob = net.likelihood.log_prob(net.outputs(problem.train.x, weights=weights), problem.train.y)
    return (kl_divergence(net.posterior, net.prior) - log_prob.sum(-1).mean() / temperature).item()


def bag(net: pt.BayesianModule, weights: Tensor) -> pt.BayesianModule:
    """`net` with a posterior of the rows of `weights`."""
    net.posterior = Samples(weights)
    return net


def outputs(net: pt.BayesianModule, problem: Problem, draws: int = DRAWS) -> dict[str, Tensor]:
    """Means or class probabilities (S, n, K) at each of the problem's sets of inputs."""
    predictions = {name: net.predict(x, draws, seed=0) for name, x in problem.inputs.items()}
    return {name: p.samples for name, p in predictions.items() if p.samples is not None}


def predictive(
    candidate: Candidate, problem: Problem, seed: int, cache: Path | None
) -> tuple[dict[str, Tensor], dict[str, float]]:
    """Outputs, the training's CPU seconds and its loss, computed or from the cache."""
    path = cache and cache / f"candidate-{candidate.key(problem, seed)}.npz"
    if path and path.exists():
        with np.load(path) as kept:
            found = {name: torch.from_numpy(kept[name]) for name in problem.inputs}
            return found, {name: float(kept[name]) for name in FACTS}
    began = time.process_time()
    net = train(candidate, problem, seed)
    facts = dict(zip(FACTS, (time.process_time() - began, loss(net, problem, candidate.temperature)), strict=True))
    found = outputs(net, problem)
    if path:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(".partial.npz")
        arrays: dict[str, Any] = {**facts, **{name: tensor.numpy() for name, tensor in found.items()}}
        np.savez(partial, **arrays)
        partial.replace(path)
    return found, facts
