"""Effective rates against the steps that the optimisers really make."""

from functools import partial

import pytest
import torch
from torch import nn

from posterity.optim import IVON, OPTIMIZERS, SGLD, build_optimizer, effective_rates
from posterity.optim.ivon import standard_deviation

ESS = 1e4
SAMPLERS = {
    "sgld": partial(SGLD, lr=3e-6, num_data=100.0),
    "psgld": partial(SGLD, lr=3e-8, num_data=100.0, preconditioned=True),
}
START = torch.tensor([3.0, 1.0, -1.0, 2.0], dtype=torch.float64)
BETA1, BETA2, EPS = 0.9, 0.999, 1e-8
GRADIENTS = torch.randn(9, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def build(name, w, **settings):
    if name in SAMPLERS:
        return SAMPLERS[name]([w], **settings)
    needed = dict.fromkeys(OPTIMIZERS[name].needs, 10)  # adabayes' batch_size
    return build_optimizer(name, [{"params": [w]}], **{**needed, **settings})


def without_noise(name):
    return {"temperature": 0.0} if name in SAMPLERS else {"weight_decay": 0.0} if name == "adamw" else {}


def averages(count, beta1=BETA1):
    """Adam's <g> and its m before the correction, after `count` gradients."""
    m = torch.zeros(4, dtype=torch.float64)
    for g in GRADIENTS[:count]:
        m = beta1 * m + (1 - beta1) * g
    return m / (1 - beta1**count), m


def kept(name, optimizer, w, count):
    """The average that the optimiser multiplies with its rates."""
    corrected, plain = averages(count, optimizer.param_groups[0].get("betas", (BETA1,))[0])
    special = {"sgd": lambda s: s["momentum_buffer"], "yellowfin": lambda s: s["u"]}
    if name in special:
        return special[name](optimizer.state[w])
    if name in ("adagrad", "rmsprop", "sgld", "psgld"):
        return GRADIENTS[count - 1]
    return plain if name in ("adabound", "amsbound") else corrected


@pytest.mark.parametrize("name", [*OPTIMIZERS, *SAMPLERS])
@pytest.mark.parametrize("count", [1, 4, 9])
def test_rates_are_those_of_the_step(name, count):
    w = nn.Parameter(START.clone())
    optimizer = build(name, w, **without_noise(name))
    for number, gradient in enumerate(GRADIENTS[:count]):
        before = w.detach().clone()
        optimizer.param_groups[0]["lr"] *= 0.9 if number else 1.0  # a schedule
        w.grad = gradient.clone()
        optimizer.step()
    moved = before - w.detach()
    rates = effective_rates(optimizer, w)
    measured = moved / kept(name, optimizer, w, count)
    torch.testing.assert_close(rates.expand(4).double(), measured, rtol=1e-6, atol=0.0)
    # Not all the same, for those that adapt.
    assert (rates.dim() == 1) == (name not in ("sgd", "sgld", "yellowfin") and not (name == "radam" and count < 6))


def test_rates_of_ivon():
    w = nn.Parameter(START.clone())
    optimizer = IVON([w], ess=ESS, weight_decay=0.01)
    m = torch.zeros(4, dtype=torch.float64)
    for gradient in GRADIENTS:
        before = w.detach().clone()
        with optimizer.sampled_weights():
            w.grad = gradient.clone()
        optimizer.step()
        m = BETA1 * m + (1 - BETA1) * gradient
    descent = m / (1 - BETA1 ** len(GRADIENTS)) + 0.01 * before
    torch.testing.assert_close(effective_rates(optimizer, w), (before - w.detach()) / descent)
    # 1 / (h + delta) is ess times the posterior's variance.
    variance = standard_deviation(optimizer.state[w]["curvature"], ESS).square()
    torch.testing.assert_close(effective_rates(optimizer, w), 0.1 * (0.1 + 0.01) * ESS * variance)


def test_rates_by_hand():
    """First step with gradient g: <g^2> = g^2."""
    g = torch.tensor([0.5, 2.0], dtype=torch.float64)
    half = 1e-2 / (2 * 0.5)
    expected = {
        "sgd": torch.tensor(1e-2),
        "adam": 3e-3 / (g + EPS),
        "amsgrad": 3e-3 / (g + EPS),
        "radam": torch.tensor(3e-3),
        "rmsprop": 1e-3 / (0.1 * g + EPS),
        "adagrad": 1e-2 / (g + 1e-10),
        "adabound": 1e-3 / (1 - BETA1) / (g + EPS),
        "adabayes": 10 / (1 / (0.1 / 10) + (10 * g) ** 2),
        "adabayes-fp": 1e-2 / (half + (half**2 + g**2).sqrt()),
        "psgld": 0.5 * 3e-8 * 100 / (0.1 * g + 1e-5),
        "sgld": torch.tensor(0.5 * 3e-6 * 100),
        "yellowfin": 1 / (g.square().sum() * 200),
    }
    for name, rates in expected.items():
        w = nn.Parameter(torch.zeros(2, dtype=torch.float64))
        optimizer = build(name, w)
        w.grad = g.clone()
        optimizer.step()
        torch.testing.assert_close(effective_rates(optimizer, w).double(), rates.double(), rtol=1e-5, atol=0.0)


def test_variants_of_pytorchs():
    for name, settings in (("rmsprop", {"centered": True}), ("adagrad", {"lr_decay": 0.1, "fused": False})):
        w = nn.Parameter(START.clone())
        optimizer = build(name, w, **settings)
        for gradient in GRADIENTS:
            before = w.detach().clone()
            w.grad = gradient.clone()
            optimizer.step()
        torch.testing.assert_close(effective_rates(optimizer, w), (before - w.detach()) / GRADIENTS[-1])


def test_what_is_not_known():
    w = nn.Parameter(START.clone())
    assert effective_rates(build("adam", w), w) is None  # no step yet
    unknown = torch.optim.Adadelta([w])
    w.grad = START.clone()
    unknown.step()
    assert effective_rates(unknown, w) is None
