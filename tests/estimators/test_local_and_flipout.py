"""Outputs of linear maps and convolutions: mean and variance against explicit formulas and explicit weights."""

import itertools
import math

import pytest
import torch
from running import outputs
from torch import nn
from torch.nn import functional as F

import posterity as pt
from posterity.core.errors import UsageError
from posterity.core.randomness import NoiseSource
from posterity.estimators import LINEAR_RULES

DRAWS = 800
PASSES = 400  # where draws are passes, one by one
EVERY_RULE = pytest.mark.parametrize("rule", LINEAR_RULES)


def spread_out(module, **options):
    torch.manual_seed(0)
    net = pt.bayesian(module().double(), seed=1, **options)
    with torch.no_grad():
        net.posterior.rho.copy_(torch.linspace(-2, 0, net.num_weights))
    return net


def exact_moments(net, module, x):
    """Mean and variance of the output, from its derivative in each weight: the output is linear in them."""
    mean, sd = net.posterior.mean.detach(), net.posterior.sd.detach()
    jacobian = torch.autograd.functional.jacobian(lambda w: net.call(w, x), mean)
    return net.call(mean, x), (jacobian * sd).square().sum(-1)


MODULES = {
    "linear": (lambda: nn.Linear(3, 4), (3, 3)),
    "linear without bias": (lambda: nn.Linear(3, 4, bias=False), (3, 3)),
    "linear over positions": (lambda: nn.Linear(3, 2), (2, 3, 3)),
    "linear of one vector": (lambda: nn.Linear(3, 2), (3,)),
    "conv1d": (lambda: nn.Conv1d(2, 3, 2), (3, 2, 4)),
    "conv1d unbatched": (lambda: nn.Conv1d(2, 3, 2), (2, 4)),
    "conv1d same": (lambda: nn.Conv1d(2, 4, 3, padding="same", dilation=2, groups=2), (2, 2, 5)),
    "conv1d valid": (lambda: nn.Conv1d(2, 2, 3, padding="valid", stride=2), (2, 2, 7)),
    "conv1d circular": (lambda: nn.Conv1d(2, 2, 3, padding=1, padding_mode="circular"), (2, 2, 4)),
    "conv2d": (lambda: nn.Conv2d(2, 3, 2, stride=2, padding=1), (2, 2, 4, 4)),
    "conv2d dilated in groups": (lambda: nn.Conv2d(4, 4, (2, 1), dilation=(2, 1), groups=2, bias=False), (2, 4, 4, 3)),
    "conv2d depthwise": (lambda: nn.Conv2d(3, 6, 2, groups=3), (2, 3, 3, 3)),
    "conv2d reflect": (lambda: nn.Conv2d(2, 2, 3, padding=1, padding_mode="reflect"), (2, 2, 3, 3)),
    "conv2d replicate": (lambda: nn.Conv2d(2, 2, 3, padding="same", padding_mode="replicate"), (2, 2, 3, 3)),
    "conv3d": (lambda: nn.Conv3d(2, 2, 2, stride=(1, 2, 1), padding=(1, 0, 0)), (2, 2, 2, 3, 2)),
    "transposed 1d": (lambda: nn.ConvTranspose1d(2, 3, 2, stride=2, output_padding=1), (2, 2, 3)),
    "transposed 2d": (lambda: nn.ConvTranspose2d(2, 4, 2, stride=2, groups=2, padding=1), (2, 2, 3, 3)),
    "transposed 2d dilated": (lambda: nn.ConvTranspose2d(2, 2, 2, dilation=2), (2, 2, 2, 2)),
    "transposed 3d": (lambda: nn.ConvTranspose3d(2, 2, 2), (2, 2, 2, 2, 1)),
}


@EVERY_RULE
@pytest.mark.parametrize("name", MODULES)
def test_moments_are_those_of_sampled_weights(rule, name):
    module, shape = MODULES[name]
    net = spread_out(module)
    x = torch.randn(shape, generator=torch.Generator().manual_seed(2)).double()
    mean, variance = exact_moments(net, module, x)
    together = rule == "local" and "unbatched" not in name and "one vector" not in name
    draws = DRAWS if together else PASSES
    with torch.no_grad():
        if together:  # examples have noise of their own: as many copies of them are as many draws
            found = outputs(net, rule, x.repeat(draws, *[1] * (x.dim() - 1)))[0].unflatten(0, (draws, len(x)))
        else:
            found = outputs(net, rule, x, draws)
    assert found.shape == (draws, *mean.shape)
    sd = variance.sqrt()
    assert ((found.mean(0) - mean).abs() <= 4.8 * sd / math.sqrt(draws) + 1e-9).all()
    ratio = found.var(0) / variance.clamp_min(1e-300)
    seen = variance > 1e-12
    assert ((ratio - 1).abs()[seen] < 4.8 * math.sqrt(2 / draws)).all()
    assert (found.var(0)[~seen] < 1e-12).all()


@EVERY_RULE
def test_noise_is_independent_between_examples(rule):
    """The same input in each row: samples would give the same output."""
    net = spread_out(lambda: nn.Conv2d(2, 3, 2))
    x = torch.randn(1, 2, 3, 3).double().expand(4, -1, -1, -1)
    with torch.no_grad():
        found = outputs(net, rule, x, PASSES)
    first = found[:, :, 0, 0, 0]
    correlation = torch.corrcoef(first.T) - torch.eye(4)
    assert correlation.abs().max() < 4.5 / math.sqrt(PASSES)


def test_local_bias_is_shared_over_a_channels_positions():
    net = spread_out(lambda: nn.Conv1d(1, 2, 1))
    with torch.no_grad():
        found = outputs(net, "local", torch.zeros(3, 1, 4).double(), 200)
        assert torch.equal(found, found[..., :1].expand_as(found))
        assert found[:, :, :, 0].std(0).min() > 0.05


def test_flipout_keeps_the_correlation_between_positions():
    """A 1 x 1 convolution of a constant image: within an example all positions agree."""
    net = spread_out(lambda: nn.Conv2d(2, 3, 1))
    with torch.no_grad():
        found = outputs(net, "flipout", torch.ones(2, 2, 3, 3).double(), 5)
    torch.testing.assert_close(found, found[..., :1, :1].expand_as(found))
    assert not torch.allclose(found[:, 0], found[:, 1])


def test_flipout_with_all_signs_one_is_sample():
    net = spread_out(lambda: nn.Linear(3, 2))
    x = torch.randn(4, 3).double()
    expected = net.call(net.posterior.sample(NoiseSource(5).normal((net.num_weights,), x)), x)
    net.noise_source = NoiseSource(5)
    net.noise_source.signs = lambda shape, like: torch.ones(shape, dtype=like.dtype)
    torch.testing.assert_close(outputs(net, "flipout", x)[0], expected)


@EVERY_RULE
@pytest.mark.parametrize("module", [lambda: nn.Linear(2, 3), lambda: nn.Conv2d(2, 3, 2, padding=1)])
def test_zeros_give_the_mean_and_finite_gradients(rule, module):
    net = spread_out(module)
    shape = (4, 2) if isinstance(module(), nn.Linear) else (4, 2, 3, 3)
    x = torch.zeros(shape).double().requires_grad_()
    for sd in (1.0, 0.0):
        with torch.no_grad():
            net.layout.views(net.posterior.rho)["bias"].fill_(-2000.0)  # sd = 0
            if sd == 0:
                net.posterior.rho.fill_(-2000.0)
        out = outputs(net, rule, x)
        out.sum().backward()
        torch.testing.assert_close(out[0], net.call(net.posterior.mean, x))
        for gradient in (x.grad, net.posterior.mean.grad, net.posterior.rho.grad):
            assert gradient.isfinite().all()


def test_gradient_of_local_by_finite_differences():
    net = spread_out(lambda: nn.Sequential(nn.Conv2d(1, 2, 2), nn.Tanh(), nn.Flatten(), nn.Linear(8, 2)))
    x = torch.randn(2, 1, 3, 3).double()
    for rule, parameter in itertools.product(LINEAR_RULES, (net.posterior.mean, net.posterior.rho)):

        def value(rule=rule):
            net.noise_source = NoiseSource(3)
            return outputs(net, rule, x, 2).square().sum()

        (gradient,) = torch.autograd.grad(value(), parameter)
        for i in range(0, len(parameter), 3):
            ends = []
            for step in (1e-6, -1e-6):
                with torch.no_grad():
                    parameter[i] += step
                    ends.append(value().item())
                    parameter[i] -= step
            assert gradient[i].item() == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=1e-4, abs=1e-6)


@EVERY_RULE
def test_functional_calls_by_keyword(rule):
    class Keywords(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight, self.bias = nn.Parameter(torch.ones(2, 2, 2)), nn.Parameter(torch.zeros(2))

        def forward(self, x):
            return F.conv1d(x, bias=self.bias, weight=self.weight, stride=2)

    net = spread_out(Keywords)
    x = torch.ones(2, 2, 4).double()
    with torch.no_grad():
        found = outputs(net, rule, x)[0]
    assert found.shape == (2, 2, 2)
    assert not torch.allclose(found[0], found[1])  # examples differ: it was intercepted


@EVERY_RULE
@pytest.mark.parametrize("select", ["weight", "bias"])
def test_deterministic_weight_or_bias(rule, select):
    net = spread_out(lambda: nn.Linear(3, 2), select=select)
    x = torch.randn(1, 3).double().expand(5, -1)
    out = outputs(net, rule, x, 3)
    out.sum().backward()
    assert all(p.grad is not None and p.grad.abs().max() > 0 for p in net.parameters())
    assert (out.std(0) > 1e-3).all()
    # A bias beside a weight that is not Bayesian is sampled, once for the batch.
    assert torch.allclose(out[:, 0], out[:, 1]) == (select == "bias")


def test_precisions():
    for dtype in (torch.float64, torch.bfloat16):
        net = spread_out(lambda: nn.Sequential(nn.Conv2d(1, 2, 2), nn.Flatten(), nn.Linear(8, 2))).to(dtype)
        for rule in LINEAR_RULES:
            out = outputs(net, rule, torch.randn(2, 1, 3, 3).to(dtype), 2)
            assert out.dtype == dtype
            assert out.isfinite().all()


def test_second_derivatives_of_local_are_refused():
    net = spread_out(lambda: nn.Linear(2, 1))
    x = torch.randn(3, 2, dtype=torch.float64, requires_grad=True)
    with pytest.raises(UsageError, match="'flipout'"):
        torch.autograd.grad(outputs(net, "local", x).sum(), x, create_graph=True)


@EVERY_RULE
def test_a_second_backward(rule):
    """Also under hooks for saved tensors, where autograd does not look for changes."""
    net = spread_out(lambda: nn.Conv2d(2, 3, 2, padding=1))
    x = torch.randn(4, 2, 3, 3, dtype=torch.float64, requires_grad=True)
    with torch.autograd.graph.save_on_cpu():
        out = outputs(net, rule, x).square().sum()
    first = torch.autograd.grad(out, x, retain_graph=True)[0]
    torch.testing.assert_close(torch.autograd.grad(out, x)[0], first)


@EVERY_RULE
def test_no_rows(rule):
    assert outputs(spread_out(lambda: nn.Linear(2, 3)), rule, torch.zeros(0, 2, dtype=torch.float64)).shape == (1, 0, 3)
