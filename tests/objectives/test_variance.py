import pytest
import torch

import posterity as pt
from posterity.core.errors import UsageError
from posterity.core.randomness import NoiseSource, derive

X, Y = torch.randn(6, 3, generator=torch.Generator().manual_seed(0)), torch.arange(6) % 2
NOISY = {"norm": True, "rho": -1.0}


def test_every_kind_is_measured_and_the_network_left_alone(network):
    net = network(**NOISY)
    before = {name: value.clone() for name, value in net.state_dict().items()}
    noise, rng = net.noise_source.state(), torch.get_rng_state()
    results = pt.gradient_variance(net, pt.Categorical(), X, Y, num_data=6, draws=4, samples=2)
    assert [r.name for r in results] == [
        "sample analytic", "sample total", "sample path", "sample score", "sample score leave one out",
        "local analytic", "local total", "local path", "flipout analytic", "flipout total", "flipout path",
    ]  # fmt: skip
    for result in results:
        assert set(result.variance) == set(result.norm) == {"mean", "sd"}
        assert all(v > 0 for v in (*result.variance.values(), result.seconds))
    assert results[0].relative_time == 1.0
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
    assert torch.equal(net.noise_source.state(), noise)
    assert torch.equal(torch.get_rng_state(), rng)
    assert all(p.grad is None for p in net.parameters())


def test_the_variance_is_that_of_the_draws(network):
    net = network(**NOISY).eval()
    (result,) = pt.gradient_variance(
        net, pt.Categorical(), X, Y, num_data=6, draws=30, estimators=["local"], gradients=["total"], seed=3
    )
    net.noise_source = NoiseSource(derive(3, "gradient variance"))
    rows = []
    for _ in range(31):
        net.zero_grad()
        pt.negative_elbo(net, pt.Categorical(), X, Y, num_data=6, estimator="local", gradient="total").backward()
        rows.append(net.posterior.rho.grad.double())
    found = torch.stack(rows[1:])
    assert result.variance["sd"] == pytest.approx(found.var(0).sum().item(), rel=1e-6)
    unbiased = found.mean(0).square().sum().item() - found.var(0).sum().item() / 30
    assert result.norm["sd"] == pytest.approx(max(unbiased, 0) ** 0.5, rel=1e-6)


def test_the_norm_is_that_of_the_expectation_however_noisy_the_kind(network):
    """Path's noise is far above its mean here, which has the same expectation as analytic's."""
    net = network(**NOISY).eval()
    torch.nn.init.constant_(net.posterior.rho, -6.0)
    analytic, path = pt.gradient_variance(
        net, pt.Categorical(), X, Y, num_data=6, draws=60, estimators=["sample"], gradients=["analytic", "path"]
    )
    biased = (path.norm["mean"] ** 2 + path.variance["mean"] / 60) ** 0.5
    assert biased > 3 * analytic.norm["mean"]
    assert path.norm["mean"] < 0.7 * biased


def test_kinds_that_a_network_does_not_have_are_left_out_unless_asked_for(network):
    net = network(**NOISY, posterior="low_rank")
    results = pt.gradient_variance(net, pt.Categorical(), X, Y, num_data=6, draws=2)
    assert {r.estimator for r in results} == {"sample"}
    with pytest.raises(UsageError, match="'local' needs weights that are independent"):
        pt.gradient_variance(net, pt.Categorical(), X, Y, num_data=6, draws=2, estimators=["local"])
    with pytest.raises(UsageError, match="the score needs log q"):
        pt.gradient_variance(
            network(**NOISY), pt.Categorical(), X, Y, num_data=6, draws=2, estimators=["local"], gradients=["score"]
        )


def test_errors(network):
    with pytest.raises(UsageError, match="at least 2 draws"):
        pt.gradient_variance(network(**NOISY), pt.Categorical(), X, Y, num_data=6, draws=1)
    with pytest.raises(UsageError, match="no variance"):
        pt.gradient_variance(network(**NOISY, posterior="point"), pt.Categorical(), X, Y, num_data=6)
    with pytest.raises(UsageError, match="Did you mean 'local'"):
        pt.gradient_variance(network(**NOISY), pt.Categorical(), X, Y, num_data=6, estimators=["sample", "locl"])
