"""What every prior must do."""

import copy
import math

import pytest
import torch
from torch import nn

from posterity.core.layout import Layout
from posterity.priors import RULES, Gaussian

MODEL = nn.Sequential(nn.Conv1d(2, 4, 3), nn.LayerNorm(4), nn.Flatten(), nn.Linear(16, 1))
LAYOUT = Layout.of(MODEL)
WEIGHTS = LAYOUT.flatten(dict(MODEL.named_parameters())).detach().double()
PRIORS = {
    **{f"gaussian {rule}": Gaussian(rule) for rule in RULES},
    "gaussian number": Gaussian(0.3),
    "gaussian centred": Gaussian(0.3, mean=-0.5),
    "gaussian pretrained": Gaussian("kaiming", mean="pretrained"),
}
EVERY = pytest.mark.parametrize("name", PRIORS)


def bind(name):
    return PRIORS[name].bind(LAYOUT, WEIGHTS)


@EVERY
def test_samples_match_the_moments(name):
    prior = bind(name)
    eps = torch.randn(20_000, len(WEIGHTS), generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    weights = prior.sample(eps)
    assert ((weights.mean(0) - prior.mean).abs() < 5 * prior.sd / math.sqrt(20_000)).all()
    torch.testing.assert_close(weights.std(0), prior.sd, rtol=0.04, atol=0)


@EVERY
def test_density_integrates_to_one(name):
    prior = bind(name)
    steps = torch.linspace(-8, 8, 801, dtype=torch.float64).unsqueeze(-1)
    density = prior.log_density_by_weight(prior.mean + prior.sd * steps).exp()
    torch.testing.assert_close(torch.trapezoid(density, dx=0.02, dim=0) * prior.sd, torch.ones_like(prior.sd))


@EVERY
def test_shares_sum_to_the_whole(name):
    prior = bind(name)
    weights = torch.randn(3, len(WEIGHTS), dtype=torch.float64)
    assert prior.log_density(weights).shape == (3,)
    torch.testing.assert_close(prior.log_density_by_weight(weights).sum(-1), prior.log_density(weights))


@EVERY
def test_is_densest_at_its_mean(name):
    prior = bind(name)
    at_mean = prior.mean.expand(len(WEIGHTS)).clone().requires_grad_()
    slope = torch.autograd.grad(prior.log_density(at_mean), at_mean)[0]
    assert slope.abs().max() == 0
    assert prior.log_density(at_mean) > prior.log_density(at_mean + 0.1)


@EVERY
def test_state_and_copies(name):
    prior, other = bind(name), copy.deepcopy(bind(name))
    for buffer in other.buffers():
        buffer += 1
    assert not torch.allclose(other.log_density(WEIGHTS), prior.log_density(WEIGHTS))
    other.load_state_dict(prior.state_dict())
    assert torch.equal(other.log_density(WEIGHTS), prior.log_density(WEIGHTS))
    assert not list(prior.parameters())


@EVERY
def test_follows_the_weights_precision(name):
    prior = PRIORS[name].bind(LAYOUT, WEIGHTS.float())
    assert prior.sd.dtype == prior.log_density(WEIGHTS.float()).dtype == torch.float32
    assert prior.double().log_density(WEIGHTS).dtype == torch.float64
