"""IVON through `fit`."""

import copy
import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import posterity as pt
from posterity.core.errors import UsageError
from posterity.posteriors import rho_of
from posterity.training import Settings, Training, plan
from posterity.training.methods.ivon import _move


def training(conjugate, net, **settings):
    return Training(net, plan(net, conjugate.data, None, Settings.of(optimizer="ivon", **settings)))


@pytest.mark.parametrize("centre", [0.0, 0.7])
def test_a_step_by_hand(conjugate, centre):
    """The equations of optim.ivon's header, with h from the network's sd and delta from its prior."""
    net, train = conjugate.network(mean=centre), conjugate.data
    rows = conjugate.num_data
    ess, beta1, beta2, lr = rows / 0.5, 0.9, 0.99, 0.1
    options = {"beta1": beta1, "beta2": beta2}
    one = training(conjugate, net, lr=lr, temperature=0.5, batch_size=rows, optimizer_options=options)
    mean, sd = net.posterior.mean.detach().clone(), net.posterior.sd.detach().clone()
    noise = sd * copy.deepcopy(net.noise_source).normal((3,), mean)
    one.train_step(next(iter(one.batches)))

    delta = 1 / conjugate.prior_sd**2 / ess
    w = (mean + noise).requires_grad_()
    g = torch.autograd.grad(0.5 * F.mse_loss(train.x @ w.unsqueeze(1), train.y) / conjugate.noise**2, w)[0]
    curvature = 1 / (ess * sd**2)
    h = curvature - delta
    h_hat = ess * curvature * g * noise
    h_new = beta2 * h + (1 - beta2) * h_hat + 0.5 * (1 - beta2) ** 2 * (h - h_hat) ** 2 / curvature
    momentum = g  # bias-corrected, after one step
    step = lr * curvature.mean() * (momentum + delta * (mean - centre)) / (h_new + delta)
    torch.testing.assert_close(net.posterior.mean.detach(), mean - step)
    torch.testing.assert_close(net.posterior.sd.detach(), (ess * (h_new + delta)).rsqrt())


@pytest.mark.parametrize(("temperature", "centre"), [(1.0, 0.0), (1.0, 0.7), (0.2, 0.0)])
def test_finds_the_best_mean_field_posterior(conjugate, temperature, centre):
    options = {"beta2": 0.995, "rescale_lr": False}
    net = conjugate.network(mean=centre, rho=-1.0)
    settings = {"lr": 0.2, "optimizer_options": options, "epochs": 1200, "samples": 4, "temperature": temperature}
    conjugate.train(net, optimizer="ivon", **settings)
    mean, precision = conjugate.exact(temperature, centre)
    sd = precision.diagonal().rsqrt()
    assert ((net.posterior.mean - mean).abs() / sd).max() < 0.15
    torch.testing.assert_close(net.posterior.sd.detach(), sd, rtol=0.1, atol=0)


def test_hess_init_sets_the_first_standard_deviations_when_training_begins_and_not_before(conjugate):
    net = conjugate.network()
    before = net.posterior.rho.detach().clone()
    planned = plan(
        net, conjugate.data, None, Settings(optimizer="ivon", temperature=1.0, optimizer_options={"hess_init": 0.3})
    )
    assert torch.equal(net.posterior.rho, before)
    Training(net, planned)
    rows = conjugate.num_data
    expected = 1 / math.sqrt(rows * (0.3 + 1 / conjugate.prior_sd**2 / rows))
    torch.testing.assert_close(net.posterior.sd.detach(), torch.full((3,), expected).double())


def test_the_network_is_like_any_other_afterwards(conjugate, tmp_path):
    settings = {"optimizer": "ivon", "epochs": 3, "batch_size": 10, "temperature": 1.0}
    result = pt.fit(conjugate.network(), conjugate.data, **settings, out=tmp_path / "a")
    group = result.history[-1]["groups"]["posterior"]
    assert {"lr", "gradient_norm"} <= set(group)
    # h has hardly moved from where it began: the rate is that of SGD.
    assert group["effective_rate"] == pytest.approx(3 * [group["lr"]], rel=1e-3)
    pt.save(result.net, tmp_path / "net.safetensors")
    again = pt.load(tmp_path / "net.safetensors", nn.Linear(3, 1, bias=False).double())
    x = conjugate.data.x
    assert torch.equal(again.predict(x, 4, seed=0).mean, result.net.predict(x, 4, seed=0).mean)


@pytest.mark.parametrize("options", [{}, {"hess_init": 0.3}])
@pytest.mark.parametrize("at", [3, 13])
def test_resumes_to_the_last_bit(check_resumption, conjugate, tmp_path, options, at):
    settings = {"optimizer": "ivon", "optimizer_options": options, "epochs": 6, "batch_size": 10, "temperature": 0.01}
    check_resumption(conjugate.network, conjugate.data, at, tmp_path / "run", **settings)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"optimizer_options": {"weight_decay": 0.1}}, "unknown option of optimizer 'ivon' 'weight_decay'.*hess_init"),
        ({"optimizer_options": {"ess": 50.0}}, "unknown option of optimizer 'ivon' 'ess'"),
        ({"optimizer_options": {"beta1": "much"}}, "option beta1 of optimizer 'ivon' takes a number"),
        ({"optimizer_options": {"beta1": 1.5}}, "beta1"),
        ({"optimizer_options": {"hess_init": 0.0}}, "hess_init must be positive"),
        ({"kl_decay": 0.5}, "kl_decay must be 1"),
        ({"temperature": 0.0}, "temperature above 0"),
        ({"temperature_warmup": 2.0}, "one temperature: give one without a warm-up"),
        ({"lr_sd": 0.1}, r"lr_sd \(0.1\) is for standard deviations, which 'ivon' does not train by themselves"),
        ({"learn_prior": True}, "learn_prior has no meaning"),
        ({"gradient": "path"}, r"gradient \('path'\) has no effect with optimizer 'ivon'"),
    ],
)
def test_what_it_cannot_do_is_refused_and_leaves_the_standard_deviations(conjugate, tmp_path, settings, message):
    net = conjugate.network()
    before = net.posterior.rho.detach().clone()
    options = {"hess_init": 0.3, **settings.get("optimizer_options", {})}
    with pytest.raises(UsageError, match=message):
        pt.fit(
            net, conjugate.data, epochs=1, optimizer="ivon", out=tmp_path / "run",
            **{**settings, "optimizer_options": options},
        )  # fmt: skip
    assert torch.equal(net.posterior.rho, before)
    assert not (tmp_path / "run").exists()


def test_networks_that_it_cannot_train(conjugate, curve, curve_net):
    for options in ({"posterior": "point"}, {"posterior": "low_rank"}, {"prior": pt.Laplace()}):
        with pytest.raises(UsageError, match="ivon trains a mean-field posterior under a Gaussian prior, not"):
            pt.fit(conjugate.network(**options), conjugate.data, epochs=1, optimizer="ivon")
    net = curve_net()
    with torch.no_grad():
        net.prior.precision[3] *= 2
    with pytest.raises(UsageError, match=r"one prior scale for all of 0\.weight"):
        pt.fit(net, curve, epochs=1, optimizer="ivon")


def test_wrong_options_on_the_command_line_leave_no_directory(train, tmp_path):
    done = train("run", "--optimizer", "ivon", "--optimizer-options", "weight_decay=0.1")
    assert (done.code, done.out) == (2, "")
    assert "error: unknown option of optimizer 'ivon' 'weight_decay'" in done.err
    assert done.err.count("\n") == 1
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("sd", [1e-6, 0.01, 0.0999, 0.1001, 3.0])
def test_single_precision_is_double_precision_rounded(sd):
    """On both sides of the sd up to which rho and its slope are taken from their series."""
    torch.manual_seed(0)
    sds = sd * (1 - 0.1 * torch.rand(50, dtype=torch.float64))
    ess = 100.0
    curvature = 1 / (ess * sds**2)
    vectors = [torch.randn(50).double(), torch.randn(50).double(), curvature, torch.randn(50).double()]
    vectors += [torch.randn(50).double() * sds / ess, rho_of(sds)]  # d nll / d rho is of this size
    settings = {"lr": 0.1, "ess": ess, "delta": 1e-4, "beta1": 0.9, "beta2": 0.9, "t": 3}
    found = []
    for dtype in (torch.float32, torch.float64):
        moved = [v.to(dtype, copy=True) for v in vectors]
        _move(*moved, scratch=torch.empty(3, 50, dtype=dtype), **settings)
        found.append([v.double() for v in moved])
    torch.testing.assert_close(*found, rtol=3e-6, atol=1e-6)
    double = found[1]
    torch.testing.assert_close(F.softplus(double[5]), (ess * double[2]).rsqrt())


@pytest.mark.parametrize("rho", [-6.0, 0.0])
def test_resumes_to_the_last_bit_in_single_precision(check_resumption, tmp_path, rho):
    torch.manual_seed(0)
    data = torch.randn(60, 3), torch.randint(2, (60,))
    network = lambda: pt.bayesian(nn.Linear(3, 2), rho=rho, init="kaiming", seed=1)  # noqa: E731
    check_resumption(network, data, 7, tmp_path / "run", optimizer="ivon", epochs=4, batch_size=10)


def test_a_changed_rho_is_what_is_drawn_with(conjugate):
    """The sd that the optimiser left is not that of a rho that was moved since."""
    net = conjugate.network()
    one = training(conjugate, net, batch_size=10)
    one.train_step(next(iter(one.batches)))
    with torch.no_grad():
        net.posterior.rho.fill_(-40.0)
    views, _ = pt.objectives.draw_with_kl(net)
    torch.testing.assert_close(views["weight"].flatten(), net.posterior.mean)
