"""How far a network follows its data: by hand on linear networks, and the two ways against each other."""

import pytest
import torch
from torch import nn

import posterity as pt
from posterity.training import leverage

NUM_DATA, NUM_INPUTS, NOISE = 40, 5, 0.3


def linear(outputs=1, **options):
    net = pt.bayesian(nn.Linear(NUM_INPUTS, outputs, bias=False), prior=pt.Gaussian(2.0), seed=0, **options)
    net.likelihood = pt.GaussianNoise(NOISE, num_targets=outputs)
    return net.double()


def rows(n=NUM_DATA):
    return torch.randn(n, NUM_INPUTS, generator=torch.Generator().manual_seed(1)).double()


def each(net, x, temperature=0.2, num_data=NUM_DATA):
    return leverage.leverages(net, net.predict(x, 4, seed=0), x, temperature=temperature, num_data=num_data)


def found(net, x, temperature=0.2, num_data=NUM_DATA):
    return each(net, x, temperature, num_data).mean(0)


def test_of_a_linear_network_by_hand():
    """The diagonal of x (x'x + T s^2 / 4)^-1 x': ridge regression's hat matrix."""
    x, temperature = rows(), 0.2
    hat = x @ torch.linalg.inv(x.T @ x + temperature * NOISE**2 / 4 * torch.eye(NUM_INPUTS)) @ x.T
    torch.testing.assert_close(each(linear(), x, temperature)[:, 0], hat.diagonal(), rtol=1e-9, atol=0)


def test_residuals_are_those_of_fitting_without_the_row():
    """Least squares: (y - x w) / (1 - h) is what the datum is missed by when the others alone are fitted."""
    x, g = rows(), torch.Generator().manual_seed(2)
    y = torch.randn(NUM_DATA, 1, generator=g).double()
    w = torch.linalg.lstsq(x, y).solution
    ours = (y - x @ w) / (1 - each(linear(), x, temperature=1e-12))
    for row in range(0, NUM_DATA, 7):
        others = torch.arange(NUM_DATA) != row
        without = torch.linalg.lstsq(x[others], y[others]).solution
        torch.testing.assert_close(ours[row], (y[row] - x[row] @ without), rtol=1e-6, atol=1e-9)


def test_a_weight_is_the_row_that_often():
    x = rows()
    weight = 2 / 3 * torch.tensor([2.0, 1.0]).double().repeat(NUM_DATA // 2)
    twice = torch.arange(NUM_DATA).repeat_interleave((1.5 * weight).round().long())
    net = linear()
    ours = leverage.leverages(net, net.predict(x, 4, seed=0), x, weight, temperature=0.2, num_data=len(twice))
    torch.testing.assert_close(ours[twice], each(net, x[twice], num_data=len(twice)), rtol=1e-9, atol=0)


def test_without_a_prior_it_is_weights_over_data():
    assert found(linear(), rows(), temperature=1e-12).item() == pytest.approx(NUM_INPUTS / NUM_DATA, rel=1e-6)


def test_targets_have_their_own():
    both = found(linear(2), rows())
    assert both.shape == (2,)
    assert both.tolist() == pytest.approx([found(linear(), rows()).item()] * 2, rel=1e-9)


def test_some_rows_stand_for_all():
    """Each of these rows twice: half the leverage, which the rows once show as well."""
    x = rows()
    whole = found(linear(), torch.cat([x, x]), num_data=2 * NUM_DATA).item()
    assert found(linear(), x, num_data=2 * NUM_DATA).item() == pytest.approx(whole, rel=1e-9)


def test_redundant_weights_count_once():
    """Two inputs that are the same: the gradients see one degree of freedom, a mean-field spread two."""
    x = rows()[:, :1].expand(-1, NUM_INPUTS).contiguous()
    assert found(linear(), x, temperature=1e-12 + 1e-9).item() == pytest.approx(1 / NUM_DATA, rel=1e-3)


def test_of_a_large_network_by_its_spread(monkeypatch):
    """Where q is the exact posterior (orthogonal inputs), both ways agree."""
    x = torch.linalg.qr(rows())[0] * NUM_DATA**0.5
    temperature, net = 0.2, linear()
    sd = (temperature / (NUM_DATA / NOISE**2 + temperature / 4)) ** 0.5
    with torch.no_grad():
        net.posterior.rho.fill_(torch.tensor(sd).double().expm1().log().item())
    exact = found(net, x, temperature).item()
    monkeypatch.setattr(leverage, "MOST_WEIGHTS", 1)
    monkeypatch.setattr(leverage, "MOST_ROWS", 1)
    prediction = net.predict(x, 4000, seed=0)
    spread = leverage.leverages(net, prediction, x, temperature=temperature, num_data=NUM_DATA)
    assert spread.shape == (NUM_DATA, 1)
    assert spread.unique().item() == pytest.approx(exact, rel=0.05)
    few = leverage.leverages(net, prediction, x, temperature=temperature, num_data=1000)
    assert few.unique().item() == pytest.approx(NUM_INPUTS / 1000)


def wide_net():
    """More weights than there are rows, and no ReLU among them that would be at a kink."""
    torch.manual_seed(0)
    net = pt.bayesian(nn.Sequential(nn.Linear(NUM_INPUTS, 12), nn.Tanh(), nn.Linear(12, 2)), seed=0)
    net.likelihood = pt.GaussianNoise(NOISE, num_targets=2)
    return net.double()


@pytest.mark.parametrize("temperature", [1e-3, 0.2, 10.0])
@pytest.mark.parametrize("weighted", [False, True])
def test_over_rows_and_over_weights_are_the_same(temperature, weighted, monkeypatch):
    net, x = wide_net(), rows(15)
    weight = torch.linspace(0.1, 1.9, 15).double() if weighted else None
    noise = torch.linspace(0.2, 0.4, 30).double().view(15, 2)
    given = {"temperature": temperature, "num_data": 15}
    assert net.num_weights > noise.numel()
    at = net.posterior.mean.detach()
    by_rows = leverage.leverages_at(at, net, x, noise, weight, **given)
    monkeypatch.setattr(leverage, "_over_rows", leverage._over_weights)
    by_weights = leverage.leverages_at(at, net, x, noise, weight, **given)
    torch.testing.assert_close(by_rows, by_weights, rtol=1e-5, atol=1e-6)


def test_more_weights_than_rows_and_no_prior_follow_them_all_the_way():
    net, x = wide_net(), rows(15)
    noise = torch.full((15, 2), NOISE).double()
    found = leverage.leverages_at(net.posterior.mean.detach(), net, x, noise, None, temperature=1e-9, num_data=15)
    torch.testing.assert_close(found, torch.ones_like(found), rtol=0, atol=1e-4)


def test_a_row_that_does_not_count_is_not_followed():
    weight = torch.ones(15).double()
    weight[3] = 0.0
    noise = torch.full((15, 2), NOISE).double()
    net = wide_net()
    at = net.posterior.mean.detach()
    found = leverage.leverages_at(at, net, rows(15), noise, weight, temperature=0.2, num_data=15)
    assert found[3].tolist() == [0.0, 0.0]
    assert found.isfinite().all()
    assert (found[:3] > 0).all()


def test_gradients_that_vmap_has_no_rule_for_are_taken_one_by_one(monkeypatch):
    net, x = wide_net(), rows(7)
    together = leverage._jacobian(net, net.posterior.mean.detach(), x)
    ours = torch.autograd.grad

    def without_rule(*given, is_grads_batched=False, **more):
        if is_grads_batched:
            raise RuntimeError("no rule")
        return ours(*given, **more)

    monkeypatch.setattr(torch.autograd, "grad", without_rule)
    torch.testing.assert_close(leverage._jacobian(net, net.posterior.mean.detach(), x), together)


@pytest.mark.parametrize(("weights", "targets", "all_rows", "has"), [
    (1500, 10**6, False, True),  # a matrix over the weights
    (1501, 2000, True, True),  # over the rows
    (1501, 2001, True, False),
    (1501, 2000, False, False),  # some rows do not stand for all
    (2**20, 64, True, True),
    (2**20, 65, True, False),  # too much memory
])  # fmt: skip
def test_which_networks_have_exact_leverages(weights, targets, all_rows, has):
    assert leverage.has_leverages(weights, targets, all_rows=all_rows) is has


def test_a_prior_that_holds_nothing_is_no_singular_matrix():
    """N(0, 1e9^2), with inputs that are all the same: one degree of freedom, four that data and prior leave alone."""
    net = pt.bayesian(nn.Linear(NUM_INPUTS, 1, bias=False), prior=pt.Gaussian(1e9), rho=-5.0, seed=0)
    net.likelihood = pt.GaussianNoise(NOISE)
    x = rows()[:, :1].expand(-1, NUM_INPUTS).contiguous()
    assert found(net.double(), x).item() == pytest.approx(1 / NUM_DATA, rel=1e-6)


@pytest.mark.parametrize(("height", "told"), [(0.5, False), (0.95, True)])
def test_rows_learnt_by_heart_are_warned_of(height, told, curve, curve_net, monkeypatch):
    """And nothing is said then of data that were left out."""

    def given(net, prediction, *rest, **more):
        return torch.full_like(prediction.mean, height)

    monkeypatch.setattr("posterity.training.ending.leverages", given)
    ending = pt.fit(curve_net(), curve, epochs=2, seed=0).ending
    assert ending["leverage"] == pytest.approx(height)
    assert any("learnt its own rows by heart (leverage 0.95 of 1)" in warning for warning in ending["warnings"]) is told
    assert ("cross_validated" in ending) is not told


def many_rows(count, weights=200):
    """Rows of correlated inputs, most of which the prior holds, and a linear network that counts as large."""
    g = torch.Generator().manual_seed(3)
    x = torch.randn(count, weights, generator=g).double() * torch.logspace(0, -4, weights).double()
    net = pt.bayesian(nn.Linear(weights, 1, bias=False), prior=pt.Gaussian(2.0), seed=0)
    net.likelihood = pt.GaussianNoise(NOISE)
    return x, net.double()


@pytest.mark.parametrize("temperature", [10.0, 1000.0])
def test_a_sample_of_rows_tells_the_leverages_of_all(temperature, monkeypatch):
    """More closely than if its rows were there that often, which are fewer directions than there are."""
    x, net = many_rows(3000)
    exact = each(net, x, temperature, num_data=3000)[:, 0]
    repeated = each(net, x[:150], temperature, num_data=3000).mean()
    monkeypatch.setattr(leverage, "MOST_WEIGHTS", 1)
    monkeypatch.setattr(leverage, "MOST_SAMPLED", 150)
    sampled = each(net, x[:400], temperature, num_data=3000)[:, 0]
    assert sampled.mean().item() == pytest.approx(exact.mean().item(), rel=0.06)
    assert abs(sampled.mean() - exact.mean()) < 0.5 * abs(repeated - exact.mean())
    assert torch.corrcoef(torch.stack([sampled[:150], exact[:150]]))[0, 1] > 0.5
    assert sampled[150:].unique().item() == pytest.approx(sampled[:150].mean().item())


def test_all_rows_as_a_sample_have_the_exact_leverages(monkeypatch):
    x, net = many_rows(200)
    exact = each(net, x, num_data=200)
    noise = torch.full((200, 1), NOISE).double()
    given = {"temperature": 0.2, "num_data": 200}
    found = leverage._by_sample(net.posterior.mean.detach(), net, x, noise, None, **given)
    torch.testing.assert_close(found, exact, rtol=1e-6, atol=1e-9)


def test_rows_of_a_sample_that_do_not_count_are_not_there():
    x, net = many_rows(180)
    noise, weight = torch.full((180, 1), NOISE).double(), torch.tensor([2.0, 1.0, 0.0]).double().repeat(60)
    at, there = net.posterior.mean.detach(), weight > 0
    found = leverage._by_sample(at, net, x, noise, weight, temperature=100.0, num_data=600)
    few = leverage._by_sample(at, net, x[there], noise[there], weight[there], temperature=100.0, num_data=400)
    torch.testing.assert_close(found[there], few)
    assert (found[~there] == 0).all()


def test_a_sample_that_is_smaller_than_the_degrees_of_freedom_tells_nothing(monkeypatch):
    x, net = many_rows(3000, weights=300)
    noise = torch.full((100, 1), NOISE).double()
    at = net.posterior.mean.detach()
    assert leverage._by_sample(at, net, x[:100], noise, None, temperature=1e-7, num_data=3000) is None
    assert leverage._by_sample(at, net, x[:99], noise[:99], None, temperature=0.2, num_data=3000) is None


def test_the_ridge_that_matches_by_hand():
    """All eigenvalues u: m (1 + u) / (u + r) = n."""
    assert leverage.matching_ridge(torch.full((200,), 3.0).double(), 250) == pytest.approx(200 * 4 / 250 - 3)
    assert leverage.matching_ridge(torch.logspace(-3, 3, 50).double(), 50) == pytest.approx(1.0)
    assert leverage.matching_ridge(torch.full((200,), 3.0).double(), 400) is None  # 200 (1 + 3) / 3 < 400
    assert leverage.matching_ridge(torch.zeros(200).double(), 400) is None


def test_too_small_a_sample_and_the_spread_bound_it(monkeypatch):
    """By hand: their geometric mean, or the spread where that is the smaller one."""
    x, net = many_rows(400)
    monkeypatch.setattr(leverage, "MOST_WEIGHTS", 1)
    monkeypatch.setattr(leverage, "MOST_SAMPLED", 90)
    prediction = net.predict(x, 64, seed=0)
    for temperature in (1e-3, 1e6):
        spread = (prediction.samples.var(0) / NOISE**2 / temperature).clamp_max(1.0).mean().clamp_max(200 / 3000)
        expected = (spread * min(spread, 90 / 3000)).sqrt()
        assert each_of(net, prediction, x, temperature).unique().item() == pytest.approx(expected.item())
    assert spread < 90 / 3000


def each_of(net, prediction, x, temperature):
    return leverage.leverages(net, prediction, x, temperature=temperature, num_data=3000)
