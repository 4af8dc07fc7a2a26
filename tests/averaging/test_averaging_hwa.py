import numpy as np
import pytest
import torch
from torch import nn

import posterity as pt
from posterity.averaging import COVARIANCES, HWA
from posterity.core.errors import UsageError
from posterity.posteriors import LowRank, MeanField, rho_of

SNAPSHOTS, RANK = 9, 4
LINEAR = {"width": None}


def along(average, net, count=SNAPSHOTS, size=0.1):
    """Move `net` at random `count` times, with a snapshot after each; returns the means and the sds, stored."""
    g = torch.Generator().manual_seed(1)
    stored = []
    for _ in range(count):
        with torch.no_grad():
            for p in net.posterior.parameters():
                p += size * torch.randn(p.shape, generator=g, dtype=torch.float64).to(p)
        average.update(net)
        stored.append((net.posterior.mean.detach().clone(), net.posterior.sd.detach().clone()))
    return tuple(torch.stack(values).double().numpy() for values in zip(*stored, strict=True))


def textbook(covariance, means, sds):
    spread, own = means.var(0), (sds**2).mean(0)
    return {"snapshot": spread, "posterior": own, "total": spread + own}[covariance]


@pytest.mark.parametrize("covariance", ["snapshot", "posterior", "total"])
@pytest.mark.parametrize("size", [0.1, 1e-4])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_equals_the_textbook_over_stored_snapshots(network, covariance, size, dtype):
    net, hwa = network(**LINEAR, dtype=dtype), HWA(covariance=covariance)
    means, sds = along(hwa, net, size=size)
    np.testing.assert_allclose(hwa.means.mean.numpy(), means.mean(0), rtol=1e-12)
    np.testing.assert_allclose(hwa.variance().numpy(), textbook(covariance, means, sds), rtol=1e-6)
    q = hwa.posterior(net.posterior)
    assert isinstance(q, MeanField)
    assert q.mean.dtype == dtype
    np.testing.assert_allclose(q.mean.detach().numpy(), means.mean(0), rtol=1e-6)
    np.testing.assert_allclose(q.variance().detach().numpy(), textbook(covariance, means, sds), rtol=2e-5)


def test_total_is_the_variance_of_a_random_snapshots_posterior(network):
    """The law of total variance, by drawing a snapshot and then weights from it."""
    net, hwa = network(**LINEAR, dtype=torch.float64), HWA()
    means, sds = along(hwa, net)
    random = np.random.default_rng(0)
    count = 200_000
    which = random.integers(SNAPSHOTS, size=count)
    weights = means[which] + sds[which] * random.standard_normal((count, means.shape[1]))
    found, expected = weights.var(0), hwa.posterior(net.posterior).variance().detach().numpy()
    error = ((weights - weights.mean(0)) ** 2).std(0) / count**0.5
    assert (np.abs(found - expected) < 4.5 * error).all()


def equation_5(means, rank=RANK):
    deviations = means[-rank:] - means.mean(0)
    return np.diag(means.var(0)) / 2 + deviations.T @ deviations / (2 * (len(deviations) - 1))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_low_rank_is_equation_5(network, dtype):
    net, hwa = network(**LINEAR, dtype=dtype), HWA(covariance="low_rank", rank=RANK)
    means, _ = along(hwa, net)
    q = hwa.posterior(net.posterior)
    assert isinstance(q, LowRank)
    assert q.rank == RANK
    assert q.mean.dtype == q.deviations.dtype == dtype
    deviations = q.own_sd * q.deviations
    covariance = torch.diag(q.own_sd**2) + deviations.T @ deviations / (RANK - 1)
    tolerance = 1e-9 if dtype == torch.float64 else 2e-5
    np.testing.assert_allclose(covariance.detach().numpy(), equation_5(means), rtol=tolerance, atol=1e-7)


def test_low_rank_samples_have_the_covariance_of_equation_5(network):
    net, hwa = network(**LINEAR, dtype=torch.float64), HWA(covariance="low_rank", rank=RANK)
    means, _ = along(hwa, net)
    averaged, count = hwa.network(net), 20_000
    weights = averaged.draw(count).detach().numpy()
    expected = equation_5(means)
    variance = np.diag(expected)
    error = np.sqrt((np.outer(variance, variance) + expected**2) / count)
    assert (np.abs(np.cov(weights.T) - expected) < 4.5 * error).all()
    assert (np.abs(weights.mean(0) - means.mean(0)) < 4.5 * np.sqrt(variance / count)).all()
    assert np.abs(expected - np.diag(variance)).max() > 10 * error.max()  # else a diagonal one would pass, too


def test_low_rank_with_fewer_snapshots_than_its_rank(network):
    net, hwa = network(**LINEAR, dtype=torch.float64), HWA(covariance="low_rank", rank=RANK)
    means, _ = along(hwa, net, count=2)
    q = hwa.posterior(net.posterior)
    assert q.rank == 2
    np.testing.assert_allclose(q.variance().detach().numpy(), np.diag(equation_5(means)), rtol=1e-9)


def test_a_training_that_stands_still_gives_the_iterate(network):
    for covariance in ("total", "posterior"):
        net, hwa = network(**LINEAR), HWA(covariance=covariance)
        along(hwa, net, size=0.0)
        q = hwa.posterior(net.posterior)
        assert torch.equal(q.mean, net.posterior.mean)
        torch.testing.assert_close(q.sd, net.posterior.sd)


@pytest.mark.parametrize("covariance", ["snapshot", "low_rank"])
def test_weights_that_never_moved_have_a_finite_density(network, covariance):
    net, hwa = network(**LINEAR), HWA(covariance=covariance)
    along(hwa, net, size=0.0)
    q = hwa.posterior(net.posterior)
    assert all(p.isfinite().all() for p in q.parameters())
    assert (q.sd < 1e-15).all()
    assert q.entropy().isfinite()
    assert pt.kl_divergence(q, net.prior).isfinite()


def test_no_spread_of_its_own_makes_total_the_snapshots(network):
    net, hwa = network(**LINEAR, rho=-30.0), HWA()
    means, _ = along(hwa, net)
    np.testing.assert_allclose(hwa.posterior(net.posterior).variance().detach(), means.var(0), rtol=1e-4)


@pytest.mark.parametrize("covariance", COVARIANCES)
def test_restart_moves_the_iterate_to_the_average(network, covariance):
    net, hwa = network(**LINEAR), HWA(covariance=covariance)
    rho = net.posterior.rho.detach().clone()
    hwa.update(net)
    hwa.restart(net)
    torch.testing.assert_close(net.posterior.rho.detach(), rho)  # one snapshot has no spread, or is the iterate
    along(hwa, net)
    q = hwa.posterior(net.posterior)
    hwa.restart(net)
    assert torch.equal(net.posterior.mean, q.mean)
    torch.testing.assert_close(net.posterior.sd, q.sd)
    assert isinstance(net.posterior, MeanField)


def test_the_average_predicts_is_saved_and_has_a_kl(tmp_path):
    model = nn.Linear(3, 2)
    for covariance in COVARIANCES:
        net = pt.bayesian(model, rho=-2.0, seed=0, likelihood=pt.Categorical())
        hwa = HWA(covariance=covariance)
        along(hwa, net)
        averaged = hwa.network(net)
        x = torch.ones(4, 3)
        pt.save(averaged, tmp_path / "net.safetensors")
        loaded = pt.load(tmp_path / "net.safetensors", model)
        assert torch.equal(loaded.predict(x, 4, seed=0).samples, averaged.predict(x, 4, seed=0).samples)
        assert pt.kl_divergence(averaged.posterior, averaged.prior) > 0


def test_restored_goes_on_to_the_same_bits(network):
    whole, net = HWA(covariance="low_rank", rank=3), network(**LINEAR)
    means, sds = along(whole, net)
    first = HWA(covariance="low_rank", rank=3)
    for part, (mean, sd) in enumerate(zip(torch.tensor(means), torch.tensor(sds), strict=True)):
        other = network(**LINEAR)
        with torch.no_grad():
            other.posterior.mean.copy_(mean)
            other.posterior.rho.copy_(rho_of(sd))
        if part == 5:
            state, first = first.state(), HWA(covariance="low_rank", rank=3)
            first.restore(state)
        first.update(other)
    a, b = first.posterior(net.posterior), whole.posterior(net.posterior)
    assert torch.equal(a.mean, b.mean)
    assert torch.equal(a.deviations, b.deviations)
    torch.testing.assert_close(a.rho, b.rho)


def test_what_it_refuses(network):
    for options in ({"posterior": "point"}, {"posterior": "low_rank"}):
        with pytest.raises(UsageError, match=f"independent weights, which a {options['posterior']}.*swa"):
            HWA().update(network(**LINEAR, **options))
    with pytest.raises(UsageError, match=r"covariance 'totl'.*'total'"):
        HWA(covariance="totl")
    with pytest.raises(UsageError, match="at least 2, not 1"):
        HWA(rank=1)
    hwa = HWA(covariance="snapshot")
    hwa.update(network(**LINEAR))
    with pytest.raises(UsageError, match="takes 2 snapshots; there are 1"):
        hwa.posterior(network(**LINEAR).posterior)
