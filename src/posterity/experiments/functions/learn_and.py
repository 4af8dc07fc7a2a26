"""The AND perceptron trained step by step, one sample a step        (source 000, section 2.4; SPEC 13, T3)."""

from __future__ import annotations

from typing import Any

import torch

from posterity.bayesian import BayesianModule
from posterity.core.errors import UsageError
from posterity.experiments.build import build_data, build_network
from posterity.experiments.run import Run
from posterity.objectives import negative_elbo
from posterity.optim import build_optimizer

BITS = ((0, 0), (0, 1), (1, 0), (1, 1))
WEIGHTS = ("w1", "w2", "b")
DRAWS = 2000


def learn_and(
    *,
    steps: int = 1000,
    records: int = 100,
    optimizer: str = "adam",
    lr: float = 0.01,
    temperature: float = 1.0,
    gradient: str = "total",
    seed: int = 0,
) -> dict[str, Any]:
    """The predictive probability of a one at the four rows, and each weight's mean and sd, before and after training.

    Priors are N(0, 1); first sds are Kaiming's, and the means are drawn with them. The history has `records` records,
    each with its last step, and the means of nll (a row) and kl over its steps.
    """
    if steps < 1 or steps % records:
        raise UsageError(f"steps must be a multiple of records ({records}), not {steps}")
    start = {"init": "kaiming", "relative_sd": 1.0, "relative_to": "init", "prior_scale": 1.0}
    run = Run.of(dataset="and", model="perceptron", seed=seed, **start)
    rows = build_data(run).train
    net = build_network(run, rows)
    found: dict[str, Any] = {**_state(net, "before", seed), "history": []}
    moving = build_optimizer(optimizer, [{"params": list(net.parameters())}], lr=lr)
    assert net.likelihood is not None
    nll = kl = 0.0
    every = steps // records
    for step in range(1, steps + 1):
        moving.zero_grad()
        loss = negative_elbo(
            net, net.likelihood, rows.x, rows.y, num_data=len(rows), temperature=temperature, gradient=gradient
        )
        nll, kl = nll + loss.nll.item(), kl + loss.kl.item()
        loss.backward()
        moving.step()
        if step % every == 0:
            found["history"].append({"epoch": step // every, "step": step, "nll": nll / every, "kl": kl / every})
            nll = kl = 0.0
    return {**found, **_state(net, "after", seed)}


def _state(net: BayesianModule, when: str, seed: int) -> dict[str, float]:
    """What is known of the neuron: its answers, and its weights."""
    ones = net.predict(torch.tensor(BITS, dtype=torch.float32), DRAWS, seed=seed).mean[:, 1]
    found = {f"{when}_{a}{b}": float(one) for (a, b), one in zip(BITS, ones, strict=True)}
    for name, mean, sd in zip(WEIGHTS, net.posterior.mean.tolist(), net.posterior.sd.tolist(), strict=True):
        found |= {f"{when}_{name}_mean": mean, f"{when}_{name}_sd": sd}
    return found
