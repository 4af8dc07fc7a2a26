"""The temperature of a Laplace approximation: as high as its quadratic allows."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import posterity as pt
from posterity.core.errors import UnknownNameError, UsageError

PAIRS = 300


@pytest.fixture(scope="module")
def sure():
    """A classifier trained until its probabilities are 0 and 1, and its data."""
    torch.manual_seed(0)
    x = torch.randn(80, 2)
    y = (x[:, 0] * x[:, 1] > 0).long()
    model = nn.Sequential(nn.Linear(2, 20), nn.ReLU(), nn.Linear(20, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(1500):
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
    return model, (x, y)


def temperature_of(model, data, **options):
    """The one of 1, 1/2, 1/4, ... whose posterior is that of `auto`."""
    found = pt.laplace(model, data, seed=0, **options).posterior.sd
    same = [
        2.0**-k
        for k in range(21)
        if torch.equal(pt.laplace(model, data, seed=0, temperature=2.0**-k, **options).posterior.sd, found)
    ]
    assert len(same) == 1
    return same[0]


def ratio(model, data, temperature):
    """Median over draws of the rise of the summed nll over what softmax's Hessian says, by other means, more draws."""
    x, y = data
    net = pt.laplace(model, data, seed=0, temperature=temperature)
    features = model[:-1](x).detach().double()
    mean, root = net.posterior.mean.detach().double(), torch.linalg.cholesky(net.posterior.covariance().double())
    away = torch.randn(PAIRS, len(mean), generator=torch.Generator().manual_seed(1)).double() @ root.detach().T

    def outputs(weights):
        return torch.stack([features @ w[:40].view(2, 20).T + w[40:] for w in weights])

    def nll(f):
        return -f.log_softmax(-1)[..., torch.arange(len(y)), y].sum(-1)

    f = outputs(mean[None])
    p = f.softmax(-1)
    moves = outputs(mean + away) - f
    expected = ((p * moves.square()).sum(-1) - (p * moves).sum(-1).square()).sum(-1)
    risen = nll(outputs(mean + away)) + nll(outputs(mean - away)) - 2 * nll(f)
    return float((risen / expected).median())


def test_a_network_that_is_sure_of_its_data_is_as_warm_as_its_quadratic_allows(sure):
    model, data = sure
    found = temperature_of(model, data)
    assert found < 0.05
    assert 0.4 < ratio(model, data, found) < 2.5  # the check has fewer draws
    assert ratio(model, data, 4 * found) > 2
    assert ratio(model, data, 1.0) > 20


def test_the_data_are_not_forgotten(sure):
    model, (x, y) = sure
    plain = F.cross_entropy(model(x), y).item()

    def loss(**options):
        net = pt.laplace(model, (x, y), seed=0, **options)
        return F.nll_loss(net.predict(x, samples=100, seed=0).mean.log(), y).item()

    assert plain < 0.01
    assert loss() < plain + 0.01
    assert loss(temperature=1.0) > plain + 0.1


def test_what_has_a_quadratic_keeps_the_temperature_of_bayes_rule():
    """A last layer with Gaussian noise; and classes that overlap, of which there are many."""
    torch.manual_seed(0)
    x = torch.randn(400, 3)
    line = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 1))
    assert temperature_of(line, (x, x[:, :1] + torch.randn(400, 1))) == 1
    logistic = nn.Linear(3, 2)
    with torch.no_grad():
        logistic.weight.copy_(torch.tensor([[1.0, 0.5, 0.0], [0.0, 0.0, 0.3]]))
    y = torch.distributions.Categorical(logits=logistic(x).detach()).sample()
    assert temperature_of(logistic, (x, y), prior=1.0) == 1


def test_parts_of_a_batch_give_the_same(sure):
    model, data = sure
    whole, parts = (pt.laplace(model, data, seed=0, batch_size=size).posterior.sd for size in (1000, 7))
    torch.testing.assert_close(whole, parts)


def test_refusals(sure):
    model, data = sure
    with pytest.raises(UnknownNameError, match=r"unknown temperature .*'cold'.* Known: auto"):
        pt.laplace(model, data, temperature="cold")
    with pytest.raises(UsageError, match="temperature must be a positive number, not 0"):
        pt.laplace(model, data, temperature=0.0)
