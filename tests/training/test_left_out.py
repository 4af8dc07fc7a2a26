"""What data left out would show: by hand, and against fitting without each row in turn."""

import math

import pytest
import torch
from scipy import optimize
from torch import nn
from torch.distributions import StudentT

import posterity as pt
from posterity.data import Dataset
from posterity.training.left_out import DF, LEAST_LEFT, judged, look
from posterity.training.leverage import leverages_at

N, D, NOISE, PRIOR, TEMPERATURE = 30, 12, 0.5, 0.4, 0.3
G = torch.Generator().manual_seed(3)
X = torch.randn(N, D, generator=G).double()
Y = X[:, :1] + NOISE * torch.randn(N, 1, generator=G).double()


def ridge(x, y):
    """What a linear network's mean is at the optimum of the tempered ELBO."""
    return torch.linalg.solve(x.T @ x / NOISE**2 + TEMPERATURE / PRIOR**2 * torch.eye(D), x.T @ y / NOISE**2)


def linear():
    net = pt.bayesian(nn.Linear(D, 1, bias=False).double(), prior=pt.Gaussian(PRIOR), seed=0)
    net.likelihood = pt.GaussianNoise(NOISE).double()
    return net


def seen(weights, **changed):
    given = {"num_data": N, "temperature": TEMPERATURE, "seed": 0, **changed}
    return look(weights, linear(), Dataset(X, Y, task="regression"), **given)


def test_residuals_are_those_of_fitting_without_the_row():
    """By r / (1 - h), and the density of each such residual under the best scale."""
    hat = X @ torch.linalg.solve(X.T @ X + TEMPERATURE * NOISE**2 / PRIOR**2 * torch.eye(D), X.T)
    left = 1 - hat.diagonal()
    e = torch.stack([Y[i] - X[i] @ ridge(X[torch.arange(N) != i], Y[torch.arange(N) != i]) for i in range(N)])[:, 0]
    found = seen(ridge(X, Y)[:, 0])
    assert found.leverage == pytest.approx(hat.diagonal().mean().item(), rel=1e-6)

    def density(log_scale):
        return StudentT(DF, 0.0, math.exp(log_scale) / left.sqrt()).log_prob(e).mean().item()

    best = optimize.minimize_scalar(lambda at: -density(at), bounds=(-5, 5), method="bounded")
    assert found.density == pytest.approx(-best.fun, abs=1e-4)
    rss = (Y[:, 0] - X @ ridge(X, Y)[:, 0]).square().sum()
    assert found.noise.item() == pytest.approx((rss / left.sum()).sqrt().item())


def test_the_noise_is_not_what_is_left_of_it():
    """Least squares: RSS / (n - d), where the residuals' own mean square is RSS / n."""
    weights = torch.linalg.lstsq(X, Y).solution
    rss = (Y - X @ weights).square().sum().item()
    found = seen(weights[:, 0], temperature=1e-9).noise.item()
    assert found == pytest.approx(math.sqrt(rss / (N - D)), rel=1e-6)
    assert found > 1.1 * math.sqrt(rss / N)


def test_what_is_learnt_by_heart_keeps_its_noise():
    """Residuals of variance s^2 (1 - h): the same noise, and left-out data that are missed by far more."""
    e = torch.randn(200, 1, generator=G).double()
    honest, by_heart = (judged(e * math.sqrt(left), torch.full_like(e, left)) for left in (1.0, 0.02))
    assert by_heart.noise.item() == pytest.approx(honest.noise.item())
    assert by_heart.density == pytest.approx(honest.density + 0.5 * math.log(0.02))
    assert by_heart.leverage == pytest.approx(0.98)


def test_noise_that_varies_is_the_unit_of_its_rows():
    """Residuals in proportion to the network's own noise: the density in its units, and the units' logarithms."""
    torch.manual_seed(0)
    net = pt.bayesian(nn.Linear(D, 2).double(), prior=pt.Gaussian(PRIOR), seed=0)
    net.likelihood = pt.GaussianNoise("input").double()
    weights = net.posterior.mean.detach()
    with net.hosted(net.layout.views(weights)) as model:
        mean, noise = (part[0] for part in net.likelihood.moments(model(X).unsqueeze(0)))
    y = mean + noise * torch.randn(N, 1, generator=G).double()
    given = {"num_data": N, "temperature": TEMPERATURE, "seed": 0}
    found = look(weights, net, Dataset(X, y, task="regression"), **given)
    h = leverages_at(weights, net, X, noise, None, temperature=TEMPERATURE, num_data=N)
    ours = judged((y - mean) / noise, 1 - h)
    assert noise.max() > 1.2 * noise.min()
    assert found.density == pytest.approx(ours.density - noise.log().mean().item())
    assert found.leverage == pytest.approx(h.mean().item())


def test_a_row_that_is_followed_all_the_way_does_not_decide_the_noise():
    r, left = torch.randn(100, 1, generator=G).double(), torch.full((100, 1), 0.9).double()
    before = judged(r, left).noise.item()
    left[0] = LEAST_LEFT
    assert judged(r, left).noise.item() == pytest.approx(before, rel=0.01)


def test_many_data_for_a_weight():
    r = torch.randn(100, 2, generator=G).double()
    found = judged(r, torch.ones_like(r))
    torch.testing.assert_close(found.noise, r.square().mean(0).sqrt())
    assert found.leverage == 0


def test_targets_add_up_and_have_their_own_noise():
    r, left = torch.randn(50, 2, generator=G).double() * torch.tensor([1.0, 5.0]), torch.rand(50, 2, generator=G)
    both = judged(r, left.double())
    each = [judged(r[:, k : k + 1], left[:, k : k + 1].double()) for k in range(2)]
    assert both.density == pytest.approx(sum(one.density for one in each))
    assert both.noise.tolist() == pytest.approx([one.noise.item() for one in each])


def test_a_weight_is_the_row_that_often():
    r, left = torch.randn(20, 1, generator=G).double(), torch.rand(20, 1, generator=G).double()
    count = torch.tensor([2, 1]).repeat(10)
    ours, written_out = judged(r, left, count), judged(r.repeat_interleave(count, 0), left.repeat_interleave(count, 0))
    assert ours.density == pytest.approx(written_out.density)
    assert ours.leverage == pytest.approx(written_out.leverage)
    torch.testing.assert_close(ours.noise, written_out.noise)


def test_single_rows_do_not_decide():
    """An outlier of a hundred sds costs a Gaussian's density of 100 rows fifty nats a row, this one a few tenths."""
    r = torch.randn(100, 1, generator=G).double()
    far = r.clone()
    far[0] = 100.0
    assert judged(r, torch.ones_like(r)).density - judged(far, torch.ones_like(r)).density < 0.3


@pytest.mark.parametrize("left", [0.0, -1e-9, 1.0 + 1e-9])
def test_at_the_pole_and_without_residuals_there_are_numbers(left):
    for size in (0.0, 1e-30, 1.0):
        found = judged(torch.full((5, 1), size).double(), torch.full((5, 1), left).double())
        assert math.isfinite(found.density)
        assert found.leverage <= 1 - LEAST_LEFT
        assert found.noise.isfinite().all()
