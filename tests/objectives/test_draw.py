import copy
from contextlib import nullcontext

import pytest
import torch
from torch import nn

import posterity as pt
from posterity.objectives import draw, draw_low_rank, draw_with_kl, kl_divergence

CENTRES = {"zero": 0.0, "number": 0.7, "pretrained": "pretrained"}


def perturbed(centre=0.0, posterior="mean_field"):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(2, 3, 2), nn.Tanh(), nn.Flatten(), nn.Linear(12, 2)).double()
    net = pt.bayesian(model, prior=pt.Gaussian("kaiming", mean=centre), posterior=posterior, rho=-10.0, seed=3)
    with torch.no_grad():
        for parameter in net.posterior.parameters():
            parameter += torch.randn_like(parameter)
        if posterior == "mean_field":
            net.posterior.rho += 8  # centred on -2
            net.posterior.rho[:4] = torch.tensor([-30.0, 19.9, 20.1, 45.0])
    return net


def both(net, samples, function):
    """Gradients of `function(weights, kl)` by draw_with_kl, and by autograd through sample and kl_divergence."""
    twin = copy.deepcopy(net)
    parameters = list(net.posterior.parameters())
    views, kl = draw_with_kl(net, samples)
    weights = net.layout.flatten(views)
    ours = torch.autograd.grad(function(weights, kl), parameters)
    drawn = twin.draw(None if samples == 1 else samples)
    torch.testing.assert_close(drawn, weights)
    kl = kl_divergence(twin.posterior, twin.prior)
    theirs = torch.autograd.grad(function(drawn, kl), list(twin.posterior.parameters()))
    return ours, theirs


@pytest.mark.parametrize("centre", CENTRES.values(), ids=CENTRES)
@pytest.mark.parametrize("samples", [1, 4])
@pytest.mark.parametrize("posterior", ["mean_field", "point", "low_rank"])
@pytest.mark.parametrize("factor", [0.0, 0.3, 7.0])
@pytest.mark.parametrize("few", [0, 2**17], ids=["by tensor", "joined"])
def test_gradient_equals_autograd(centre, samples, posterior, factor, few, monkeypatch):
    monkeypatch.setattr(draw, "FEW_WEIGHTS", few)
    monkeypatch.setattr(draw_low_rank, "BLOCK", 7)
    net = perturbed(centre, posterior)
    direction = torch.randn(net.num_weights, dtype=torch.float64)
    loss = lambda w, kl: (torch.sin(w) * direction).mean() + factor * kl  # noqa: E731
    for a, b in zip(*both(net, samples, loss), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("size", [1e-3, 1.0, 100.0])
def test_low_rank_in_single_precision(size):
    """Also where M's eigenvalues are 1e7 apart, as two large deviations nearly agree."""
    torch.manual_seed(1)
    net = pt.bayesian(nn.Linear(4000, 5), posterior="low_rank", rank=4, rho=-4.0)
    with torch.no_grad():
        net.posterior.deviations.normal_(std=size)
        net.posterior.deviations[3].normal_(std=0.01).add_(net.posterior.deviations[2])
    twin = copy.deepcopy(net).double()
    draw_with_kl(net)[1].backward()
    kl_divergence(twin.posterior, twin.prior).backward()
    for (name, ours), theirs in zip(net.posterior.named_parameters(), twin.posterior.parameters(), strict=True):
        atol = 1e-5 if name == "deviations" else 1e-4
        torch.testing.assert_close(ours.grad.double(), theirs.grad, rtol=1e-4, atol=atol)


def test_shapes_and_value_of_the_kl():
    net = perturbed()
    views, kl = draw_with_kl(net, 1)
    assert {n: tuple(v.shape) for n, v in views.items()} == {e.name: e.shape for e in net.layout.entries}
    assert views["0.weight"].is_contiguous(memory_format=torch.channels_last)
    torch.testing.assert_close(kl, kl_divergence(net.posterior, net.prior))
    assert draw_with_kl(net, 3)[0]["0.weight"].shape == (3, 3, 2, 2, 2)


@pytest.mark.parametrize("samples", [1, 3])
def test_unused_weights_get_the_gradient_of_the_kl_alone(samples):
    net, twin = perturbed(0.7), perturbed(0.7)
    views, kl = draw_with_kl(net, samples)
    (views["3.bias"].square().sum() + 2 * kl).backward()
    (2 * kl_divergence(twin.posterior, twin.prior)).backward()
    for ours, theirs in zip(net.posterior.parameters(), twin.posterior.parameters(), strict=True):
        torch.testing.assert_close(ours.grad[:-2], theirs.grad[:-2])
        assert not torch.isclose(ours.grad[-2:], theirs.grad[-2:]).any()


def test_gradients_shared_with_others_are_left_alone():
    net = perturbed(0.7)
    views, kl = draw_with_kl(net, 1)
    other = torch.zeros(2, dtype=torch.float64, requires_grad=True)
    factor = torch.tensor([3.0, 4.0], dtype=torch.float64)
    (((views["3.bias"] + other) * factor).sum() + 5 * kl).backward()
    assert torch.equal(other.grad, factor)


@pytest.mark.parametrize("hooks", [nullcontext, torch.autograd.graph.save_on_cpu])
def test_a_second_backward_is_right_or_refused(hooks):
    net = perturbed()
    with hooks():  # autograd does not see changes under them
        views, kl = draw_with_kl(net, 1)
    loss = sum(v.sin().sum() for v in views.values()) + kl
    first = torch.autograd.grad(loss, net.posterior.rho, retain_graph=True)[0]
    try:
        second = torch.autograd.grad(loss, net.posterior.rho)[0]
    except RuntimeError:
        return
    torch.testing.assert_close(first, second)


@pytest.mark.parametrize("samples", [1, 3])
def test_gradient_equals_differences_of_the_loss(samples):
    net = perturbed("pretrained")
    with torch.no_grad():
        net.posterior.rho[:4] = -1.0
    x, y = torch.randn(3, 2, 3, 3, dtype=torch.float64), torch.tensor([0, 1, 1])
    start, state = copy.deepcopy(net.posterior.state_dict()), net.noise_source.state()

    def loss(shift):
        net.posterior.load_state_dict({name: start[name] + shift.get(name, 0) for name in start})
        net.noise_source.restore(state)
        return pt.negative_elbo(net, pt.Categorical(), x, y, num_data=5, samples=samples)

    loss({}).backward()
    gradient = {name: p.grad.clone() for name, p in net.posterior.named_parameters()}
    assert set(gradient) == {"mean", "rho"}
    for name, slope in gradient.items():
        for _ in range(5):
            step = 1e-5 * torch.randn_like(slope)
            change = loss({name: step}).item() - loss({name: -step}).item()
            assert change == pytest.approx(2 * (slope * step).sum().item(), rel=1e-6, abs=1e-12)


def test_changing_the_weights_before_backward_is_refused():
    net = perturbed()
    views, kl = draw_with_kl(net, 1)
    with torch.no_grad():
        net.posterior.mean += 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        (views["3.bias"].sum() + kl).backward()


@pytest.mark.parametrize("samples", [1, 3])
@pytest.mark.parametrize("prior", [pt.Laplace(0.5), pt.ScaleMixture()], ids=["laplace", "mixture"])
def test_a_point_has_the_gradient_of_any_prior(prior, samples):
    torch.manual_seed(0)
    net = pt.bayesian(nn.Linear(3, 2).double(), prior=prior, posterior="point")
    loss = lambda w, kl: torch.sin(w).mean() + 0.3 * kl  # noqa: E731
    (ours,), (theirs,) = both(net, samples, loss)
    torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=0)


def test_a_point_by_hand():
    """c (mean - prior_mean) / prior_sd^2 beside the sum of the samples' gradients."""
    net = pt.bayesian(nn.Linear(1, 1, bias=False).double(), prior=pt.Gaussian(0.5, mean=1.0), posterior="point")
    with torch.no_grad():
        net.posterior.mean.fill_(4.0)
    views, kl = draw_with_kl(net, 2)
    (views["weight"][0] * 5 + views["weight"][1] * 7 + 0.25 * kl).sum().backward()
    torch.testing.assert_close(net.posterior.mean.grad, torch.tensor([5 + 7 + 0.25 * 3 / 0.25]).double())


@pytest.mark.parametrize("prior", [pt.Gaussian(), pt.Laplace()], ids=["gaussian", "laplace"])
def test_without_temperature_a_point_s_prior_does_not_matter(prior, monkeypatch):
    net = pt.bayesian(nn.Linear(3, 2), prior=prior, posterior="point")
    monkeypatch.setattr(net.prior, "energy_by_weight", lambda weights: weights * torch.inf)
    x, y = torch.randn(4, 3), torch.tensor([0, 1, 0, 1])
    loss = pt.negative_elbo(net, pt.Categorical(), x, y, num_data=4, temperature=0.0)
    loss.backward()
    assert loss.item() == loss.nll.item()
    assert net.posterior.mean.grad.abs().sum() > 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("largest", [1e-3, 0.1, 0.135, 0.14, 0.3, 0.5, 0.6, 3.0, 100.0, 1e10])
@pytest.mark.parametrize("few", [0, 10**9])
@pytest.mark.parametrize("decades", [4, 20])
def test_the_sum_of_logarithms_whatever_the_sds(largest, dtype, few, decades, monkeypatch):
    """By two lengths of the series, by logarithms, or by those of products: the same number to rounding."""
    monkeypatch.setattr(draw, "FEW_WEIGHTS", few)
    sd = torch.logspace(-decades, 0, 4003, dtype=torch.float64) * largest
    rho = torch.where(sd > 20, sd, torch.expm1(sd).log()).to(dtype)
    logs = torch.nn.functional.softplus(rho.double()).log()
    found = float(draw.sum_log_sd(rho, torch.nn.functional.softplus(rho)))
    assert found == pytest.approx(logs.sum().item(), abs=8 * torch.finfo(dtype).eps * logs.abs().sum().item())


def test_an_sd_whose_exponential_overflows(monkeypatch):
    """In single precision e^100 is infinite, softplus(100) is 100."""
    monkeypatch.setattr(draw, "FEW_WEIGHTS", 0)
    net = perturbed().float()
    with torch.no_grad():
        net.posterior.rho[3] = 100.0
    views, kl = draw_with_kl(net, 1)
    assert all(view.isfinite().all() for view in views.values())
    torch.testing.assert_close(kl, kl_divergence(net.posterior, net.prior))
