"""IVON and Langevin dynamics through `fit`."""

import copy
import math

import pytest
import torch
from test_training_groups import Cut
from torch import nn
from torch.nn import functional as F

import posterity as pt
from posterity.core.errors import UsageError
from posterity.data import Dataset
from posterity.training.methods.ivon import PosteriorIVON

NOISE, PRIOR_SD, N = 0.5, 0.8, 40


def data():
    g = torch.Generator().manual_seed(0)
    x = torch.randn(N, 3, generator=g, dtype=torch.float64)
    x[:, 1] += 0.6 * x[:, 0]
    y = x @ torch.tensor([[1.0], [-2.0], [0.3]], dtype=torch.float64)
    return Dataset(x, y + NOISE * torch.randn(N, 1, generator=g, dtype=torch.float64), "regression")


def network(posterior="mean_field", mean=0.0, rho=-2.0):
    torch.manual_seed(0)
    model = nn.Linear(3, 1, bias=False).double()
    prior = pt.Gaussian(PRIOR_SD, mean=mean)
    return pt.bayesian(model, prior=prior, posterior=posterior, rho=rho, likelihood=pt.GaussianNoise(NOISE), seed=2)


def exact(temperature=1.0, prior_mean=0.0):
    x, y = data().x, data().y
    precision = x.T @ x / (temperature * NOISE**2) + torch.eye(3).double() / PRIOR_SD**2
    right = x.T @ y / (temperature * NOISE**2) + prior_mean / PRIOR_SD**2
    return torch.linalg.solve(precision, right).squeeze(-1), precision


@pytest.mark.parametrize("centre", [0.0, 0.7])
def test_a_step_of_ivon_by_hand(centre):
    """The equations of optim.ivon's header, with h from the network's sd and delta from its prior."""
    net = network(mean=centre)
    ess, beta1, beta2, lr = N / 0.5, 0.9, 0.99, 0.1
    mean, sd = net.posterior.mean.detach().clone(), net.posterior.sd.detach().clone()
    noise = sd * copy.deepcopy(net.noise_source).normal((3,), mean)
    delta = 1 / PRIOR_SD**2 / ess
    optimizer = PosteriorIVON(net, num_data=N, temperature=0.5, lr=lr, beta1=beta1, beta2=beta2)
    train = data()
    pt.negative_elbo(net, net.likelihood, train.x, train.y, num_data=N, temperature=0.0).backward()
    optimizer.step()

    w = (mean + noise).requires_grad_()
    g = torch.autograd.grad(0.5 * F.mse_loss(train.x @ w.unsqueeze(1), train.y) / NOISE**2, w)[0]
    curvature = 1 / (ess * sd**2)
    h = curvature - delta
    h_hat = ess * curvature * g * noise
    h_new = beta2 * h + (1 - beta2) * h_hat + 0.5 * (1 - beta2) ** 2 * (h - h_hat) ** 2 / curvature
    momentum = g  # bias-corrected, after one step
    step = lr * curvature.mean() * (momentum + delta * (mean - centre)) / (h_new + delta)
    torch.testing.assert_close(net.posterior.mean.detach(), mean - step)
    torch.testing.assert_close(net.posterior.sd.detach(), (ess * (h_new + delta)).rsqrt())


@pytest.mark.parametrize(("temperature", "centre"), [(1.0, 0.0), (1.0, 0.7), (0.2, 0.0)])
def test_ivon_finds_the_best_mean_field_posterior(temperature, centre):
    options = {"beta2": 0.995, "rescale_lr": False}
    result = pt.fit(
        network(mean=centre, rho=-1.0), data(), optimizer="ivon", lr=0.2, optimizer_options=options, epochs=1200,
        batch_size=N, samples=4, temperature=temperature,
    )  # fmt: skip
    mean, precision = exact(temperature, centre)
    sd = precision.diagonal().rsqrt()
    assert ((result.net.posterior.mean - mean).abs() / sd).max() < 0.15
    torch.testing.assert_close(result.net.posterior.sd.detach(), sd, rtol=0.1, atol=0)


def test_hess_init_sets_the_first_standard_deviations():
    net = network()
    PosteriorIVON(net, num_data=N, temperature=1.0, hess_init=0.3)
    expected = 1 / math.sqrt(N * (0.3 + 1 / PRIOR_SD**2 / N))
    torch.testing.assert_close(net.posterior.sd.detach(), torch.full((3,), expected).double())


def test_ivon_is_like_any_other_network_afterwards(tmp_path):
    result = pt.fit(network(), data(), optimizer="ivon", epochs=3, batch_size=10, out=tmp_path / "run")
    group = result.history[-1]["groups"]["posterior"]
    assert {"lr", "gradient_norm"} <= set(group)
    # h has hardly moved from where it began: the rate is that of SGD.
    assert group["effective_rate"] == pytest.approx(3 * [group["lr"]], rel=1e-3)
    pt.save(result.net, tmp_path / "net.safetensors")
    again = pt.load(tmp_path / "net.safetensors", nn.Linear(3, 1, bias=False).double())
    x = data().x
    assert torch.equal(again.predict(x, 4, seed=0).mean, result.net.predict(x, 4, seed=0).mean)


def test_langevin_dynamics_samples_the_exact_posterior():
    """Its samples have the exact posterior's means and covariance, correlations included."""
    settings = {"epochs": 2500, "batch_size": N, "schedule": "constant", "average_start": 0.1, "average_every": 3}
    for name, lr, temperature in [("sgld", 7e-4, 0.5)]:
        result = pt.fit(network("point"), data(), optimizer=name, lr=lr, temperature=temperature, **settings)
        samples = result.averaged.posterior
        assert samples.kind == "samples"
        assert len(samples.weights) == 750
        mean, precision = exact(temperature)
        covariance = torch.linalg.inv(precision)
        sd = covariance.diagonal().sqrt()
        assert ((samples.mean - mean).abs() / sd).max() < 0.3
        found = torch.cov(samples.weights.T)
        assert ((found - covariance).abs() / torch.outer(sd, sd)).max() < 0.3


@pytest.mark.parametrize("name", ["sgld", "psgld"])
def test_langevin_dynamics_resumes_to_the_last_bit(name, tmp_path):
    settings = {"optimizer": name, "epochs": 5, "batch_size": 10, "average_start": 0.3, "average_every": 2}
    whole = pt.fit(network("point"), data(), **settings)
    with pytest.raises(KeyboardInterrupt):
        pt.fit(network("point"), data(), out=tmp_path, checkpoint_seconds=0, callbacks=[Cut(11)], **settings)
    resumed = pt.fit(network("point"), data(), out=tmp_path, resume=True, checkpoint_seconds=0, **settings)
    assert len(whole.averaged.posterior.weights) == 7
    assert torch.equal(whole.averaged.posterior.weights, resumed.averaged.posterior.weights)


def test_what_samplers_cannot_do_is_said():
    for options, message in [
        ({"optimizer": "ivon", "kl_decay": 0.5}, "kl_decay must be 1"),
        ({"optimizer": "ivon", "temperature": 0.0}, "temperature"),
        ({"optimizer": "ivon", "lr_sd": 0.1}, "lr_sd has no meaning"),
        ({"optimizer": "sgld"}, "posterior 'point'"),
    ]:
        with pytest.raises(UsageError, match=message):
            pt.fit(network(), data(), epochs=1, **options)
    with pytest.raises(UsageError, match="mean-field posterior"):
        pt.fit(network("point"), data(), epochs=1, optimizer="ivon")
