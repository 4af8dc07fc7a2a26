"""Networks and trainings with the compiled passes, against the same without them."""

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import posterity as pt
from posterity.core import kernels
from posterity.objectives import draw_with_kl, kl_divergence
from posterity.priors import FlatGaussian

pytestmark = pytest.mark.skipif(
    kernels._kernels is None, reason="no compiled passes: no C compiler was there when posterity was installed"
)


def test_gradients_in_the_inputs_by_functorch(made):
    """Its tensors have no memory that could be passed over."""
    net, x = made(), torch.randn(3, 50)
    assert torch.func.grad(lambda x: net(x).sum())(x).shape == x.shape
    assert torch.func.jacrev(net)(x).shape == (3, 24, 3, 50)


@pytest.mark.parametrize("centre", [0.0, 0.7, "pretrained"])
@pytest.mark.parametrize("estimator", ["sample", "local", "flipout"])
def test_a_loss_and_its_gradient_are_pytorchs(centre, estimator, made, plain, calls):
    """Of a whole network, whose layers have priors of their own: the same noise, loss and gradient, to rounding."""
    x, y = torch.randn(8, 50), torch.randint(24, (8,))
    ours = made(prior=pt.Gaussian("kaiming", mean=centre), rho=-3.0)
    theirs = copy.deepcopy(ours)
    found = []
    for net in (ours, theirs):
        loss = pt.negative_elbo(net, pt.Categorical(), x, y, num_data=1000, estimator=estimator)
        loss.backward()
        found.append((loss.item(), loss.kl.item(), net.posterior.mean.grad, net.posterior.rho.grad))
        # Four tensors of weights; `local` and Flipout have a gradient in the sds themselves.
        assert calls == {"draw": 4, "gradient": 4 if estimator == "sample" else 0, "ivon": 0}
        plain()
    assert len({precision.item() for precision in ours.prior.precisions(ours.layout)}) > 1
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("kind", [torch.float64, torch.bfloat16])
@pytest.mark.parametrize("what", ["sd", "centre"])
def test_a_prior_of_another_precision_takes_pytorchs_way(what, kind, made, plain):
    """Its numbers are not read as if they were the network's."""
    net = made(rho=-3.0)
    sd, centre = torch.full((net.num_weights,), 0.5), torch.rand(net.num_weights)
    net.prior = FlatGaussian(sd.to(kind), centre) if what == "sd" else FlatGaussian(sd, centre.to(kind))
    twin, found = copy.deepcopy(net), []
    for each in (net, twin):
        loss = pt.negative_elbo(each, pt.Categorical(), torch.ones(8, 50), torch.zeros(8, dtype=torch.long), num_data=8)
        loss.backward()
        found.append((loss.detach(), each.posterior.mean.grad, each.posterior.rho.grad))
        plain()
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=2e-4, atol=2e-5)


def test_a_tensor_without_elements_is_no_obstacle(made):
    class Sparse(nn.Module):
        def __init__(self):
            super().__init__()
            self.none, self.layer = nn.Parameter(torch.empty(0)), nn.Linear(50, 40)

        def forward(self, x):
            return self.layer(x) + self.none.sum()

    made()
    net = pt.bayesian(Sparse(), seed=0)
    loss = pt.negative_elbo(net, pt.Categorical(), torch.ones(8, 50), torch.zeros(8, dtype=torch.long), num_data=8)
    loss.backward()
    torch.testing.assert_close(loss.kl.detach(), kl_divergence(net.posterior, net.prior).detach())


def test_the_kl_is_exact(made):
    net = made(rho=-3.0)
    twin = copy.deepcopy(net).double()
    exact = kl_divergence(twin.posterior, twin.prior).item()
    assert draw_with_kl(net)[1].item() == pytest.approx(exact, rel=1e-6)


@pytest.mark.parametrize("odd", [-100.0, 100.0])
def test_a_network_with_a_rho_out_of_reach(odd, made, plain):
    """Forward it takes PyTorch's way, to the same bits; the gradient is right there."""
    ours = made(rho=-3.0)
    with torch.no_grad():
        ours.posterior.rho[5] = odd
    theirs = copy.deepcopy(ours)
    noise = theirs.noise_source.normal((theirs.num_weights,), theirs.posterior.mean)
    views, kl = draw_with_kl(ours)
    weights = ours.layout.flatten(views)
    assert torch.equal(weights, torch.addcmul(theirs.posterior.mean, F.softplus(theirs.posterior.rho), noise))
    torch.testing.assert_close(kl, kl_divergence(theirs.posterior, theirs.prior), rtol=1e-5, atol=0)
    kl.backward()
    plain()
    kl_divergence(theirs.posterior, theirs.prior).backward()
    # Of -log sd, -sigmoid(rho) / sd, which is -1 at -100; that sd has five bits in single precision.
    torch.testing.assert_close(ours.posterior.rho.grad, theirs.posterior.rho.grad, rtol=0.05, atol=1e-5)


def compare(ours, plain, **options):
    """The same loss and gradient with PyTorch's functions, from the same noise."""
    theirs, found = copy.deepcopy(ours), []
    x, y = torch.randn(8, 50), torch.randint(24, (8,))
    for net in (ours, theirs):
        loss = pt.negative_elbo(net, pt.Categorical(), x, y, num_data=1000, **options)
        loss.backward()
        found.append((loss.detach(), net.posterior.mean.grad, net.posterior.rho.grad))
        plain()
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=2e-4, atol=2e-5)


def test_several_samples(made, plain, calls):
    compare(made(rho=-3.0), plain, samples=3)
    assert calls == {"draw": 0, "gradient": 0, "ivon": 0}


def test_a_prior_of_each_weight(made, plain, calls):
    net = made(rho=-3.0)
    net.prior = FlatGaussian(torch.rand(net.num_weights) + 0.5)
    compare(net, plain)
    assert calls == {"draw": 0, "gradient": 4, "ivon": 0}


def test_gradients_that_are_one_number_repeated(made, plain, calls):
    """Those of sums: a tensor of many elements over the memory of one."""
    ours = made(rho=-3.0)
    theirs, found = copy.deepcopy(ours), []
    for net in (ours, theirs):
        views, _ = draw_with_kl(net)
        sum(view.sum() for view in views.values()).backward()
        found.append((net.posterior.mean.grad, net.posterior.rho.grad))
        plain()
    assert calls["draw"] == 4
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other)


def test_a_graph_that_is_kept_gives_the_same_again(made):
    net = made(rho=-3.0)
    views, kl = draw_with_kl(net)
    loss = sum(view.sin().sum() for view in views.values()) + 0.1 * kl
    parameters = list(net.posterior.parameters())
    first = [grad.clone() for grad in torch.autograd.grad(loss, parameters, retain_graph=True)]
    second = torch.autograd.grad(loss, parameters)
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))
    with pytest.raises(RuntimeError):
        torch.autograd.grad(loss, parameters)


@pytest.mark.parametrize("optimizer", [None, "adam", "ivon"])
def test_a_training_goes_as_without_them(optimizer, made, plain, calls):
    """Five steps of `fit`: means, sds and the KL that is recorded agree to rounding with PyTorch's."""
    x, y = torch.randn(50, 50), torch.randint(24, (50,))
    found = []
    for _ in range(2):
        net = made(rho=-5.0)
        calls["ivon"] = 0
        result = pt.fit(net, (x, y), optimizer=optimizer, epochs=1, batch_size=10, temperature=0.1, seed=0)
        found.append((net.posterior.mean.detach(), net.posterior.sd.detach(), result.history[-1]["kl"]))
        assert bool(calls["ivon"]) == (optimizer == "ivon" and len(found) == 1)
        plain()
    (mean, sd, kl), (other_mean, other_sd, other_kl) = found
    # Adam's first step is its rate whatever the size of a gradient: where that is all rounding, so is its sign.
    assert (mean - other_mean).abs().median() < 1e-6
    assert (sd / other_sd - 1).abs().median() < 1e-5
    assert kl == pytest.approx(other_kl, rel=1e-3)


def test_ivon_with_sds_that_are_too_large_for_it(made, plain, calls):
    """Beyond MOST_SD its series do not hold."""
    x, y = torch.randn(50, 50), torch.randint(24, (50,))
    net = made(rho=0.5)
    pt.fit(net, (x, y), optimizer="ivon", epochs=1, batch_size=10, seed=0)
    assert net.posterior.sd.amax() > 1
    assert calls["ivon"] == 0
