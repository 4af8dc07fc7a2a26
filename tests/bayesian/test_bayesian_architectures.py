"""Every kind of module becomes Bayesian: each weight is drawn, used and trained."""

import copy

import pytest
import torch
from architectures import ARCHITECTURES, make
from torch import nn

import posterity as pt

MODES = pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
EVERY = pytest.mark.parametrize("name", ARCHITECTURES)
pytestmark = pytest.mark.filterwarnings("ignore:LSTM with projections")
# Batch statistics absorb a shift of what comes before.
UNSEEN_IN_TRAIN = {"batch norm": {"0.bias"}, "residual": {"body.0.bias"}}


def bayesian_of(name, training=True, **options):
    model, x = make(name)
    return pt.bayesian(model, rho=-3.0, seed=1, **options).train(training), x


@EVERY
@MODES
def test_mean_weights_give_the_modules_own_output(name, training):
    model, x = make(name)
    net, _ = bayesian_of(name, training)
    expected = model.train(training)(x)
    torch.testing.assert_close(net.call(net.posterior.mean, x), expected, rtol=1e-4, atol=1e-5)


@EVERY
@MODES
def test_passes_differ_and_seeds_repeat(name, training):
    net, x = bayesian_of(name, training)
    first, second = net(x), net(x)
    assert torch.isfinite(first).all()
    assert not torch.allclose(first, second)
    again, _ = bayesian_of(name, training)
    torch.testing.assert_close(again(x), first)


@EVERY
@MODES
def test_every_weight_tensor_is_used(name, training):
    net, x = bayesian_of(name, training)
    weights = net.posterior.mean.detach()
    state = copy.deepcopy(net.model.state_dict())
    base = net.call(weights, x)
    for entry in net.layout.entries:
        moved = weights.clone()
        view = net.layout.views(moved)[entry.name]
        view += 0.5 * torch.randn(view.shape)
        net.model.load_state_dict(state)
        change = (net.call(moved, x) - base).abs().max()
        if training and entry.name in UNSEEN_IN_TRAIN.get(name, ()):
            assert change < 1e-4
        else:
            assert change > 1e-4, entry.name


@EVERY
@MODES
@pytest.mark.parametrize("samples", [1, 3])
def test_gradient_reaches_every_mean_and_rho(name, training, samples):
    net, x = bayesian_of(name, training)
    out = net.outputs(x, samples=samples)
    (out * torch.randn_like(out)).sum().backward()
    for parameter in (net.posterior.mean, net.posterior.rho):
        for entry, view in net.layout.views(parameter.grad).items():
            if not (training and entry in UNSEEN_IN_TRAIN.get(name, ())):
                assert view.abs().max() > 1e-8, entry


@EVERY
def test_the_users_module_is_left_alone(name):
    model, x = make(name)
    before = {n: t.clone() for n, t in model.state_dict().items()}
    net = pt.bayesian(model, rho=0.0)
    net(x)
    net.outputs(x, samples=2).sum().backward()
    after = model.state_dict()
    assert before.keys() == after.keys()
    assert all(torch.equal(before[n], after[n]) for n in before)
    assert all(p.grad is None for p in model.parameters())


@EVERY
@MODES
@pytest.mark.parametrize("gradient", [True, False], ids=["grad", "no grad"])
def test_samples_together_equal_one_by_one(name, training, gradient):
    net, x = bayesian_of(name, training)
    weights = net.draw(3).detach().requires_grad_(gradient)
    state = copy.deepcopy(net.model.state_dict())
    with torch.set_grad_enabled(gradient):
        together = net.outputs(x, weights=weights)
        net.model.load_state_dict(state)
        apart = torch.stack([net.call(w, x) for w in weights])
    torch.testing.assert_close(together, apart, rtol=1e-4, atol=1e-5)


@EVERY
def test_parameters_are_the_posteriors_only(name):
    net, _ = bayesian_of(name)
    assert {n for n, _ in net.named_parameters()} == {"posterior.mean", "posterior.rho"}
    assert net.num_weights == sum(p.numel() for p in make(name)[0].parameters())


@EVERY
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_other_precisions(name, dtype):
    net, x = bayesian_of(name, training=False)
    net.to(dtype)
    x = x.to(dtype) if x.is_floating_point() else x
    with torch.no_grad():
        out = net.outputs(x, samples=2)
    assert out.dtype == dtype
    assert torch.isfinite(out).all()


def test_tied_weights_stay_tied():
    net, x = bayesian_of("tied")
    model, _ = make("tied")
    assert net.layout.names == ["embedding.weight", "head.bias"]
    weights = net.draw()
    with torch.no_grad():
        for name, view in net.layout.views(weights).items():
            dict(model.named_parameters())[name].copy_(view)
    torch.testing.assert_close(net.call(weights, x), model(x))


def test_dropout_differs_between_samples():
    model = nn.Sequential(nn.Linear(3, 50), nn.Dropout(0.5))
    net = pt.bayesian(model, rho=-20.0)
    out = net.outputs(torch.ones(2, 3), samples=3)
    zero = out == 0
    assert not torch.equal(zero[0], zero[1])
    assert not torch.equal(zero[0, 0], zero[0, 1])
    assert 0.3 < zero.float().mean() < 0.7
