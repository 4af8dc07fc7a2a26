import copy

import pytest
import torch
from torch import nn

import posterity as pt
from posterity.core.errors import UsageError
from posterity.objectives import kl_divergence
from posterity.optim import OPTIMIZERS, build_optimizer

X = torch.randn(12, 3, generator=torch.Generator().manual_seed(0))
Y = torch.arange(12) % 2


def elbo(net, samples=1, **options):
    return pt.negative_elbo(net, pt.Categorical(), X, Y, num_data=40, samples=samples, **options)


def gradients(net):
    return [p.grad.clone() for p in net.posterior.parameters()]


@pytest.mark.parametrize("posterior", ["mean_field", "point"])
@pytest.mark.parametrize(("temperature", "kl_weight"), [(1.0, 1.0), (0.3, 1.7), (0.0, 1.0), (1.0, 0.0)])
def test_total_by_its_parts(network, posterior, temperature, kl_weight):
    net = network(posterior=posterior)
    loss = elbo(net, 3, temperature=temperature, kl_weight=kl_weight)
    kl = kl_divergence(net.posterior, net.prior)
    torch.testing.assert_close(loss.kl, kl)
    torch.testing.assert_close(loss.nll, pt.Categorical().nll(loss.outputs, Y))
    torch.testing.assert_close(loss.total, loss.nll + temperature * kl_weight * kl / 40)
    assert loss.item() == loss.total.item()
    assert (loss.temperature, loss.kl_weight, loss.num_data) == (temperature, kl_weight, 40)


def test_nll_is_that_of_the_drawn_weights(network):
    net = network()
    weights = copy.deepcopy(net).draw(4)
    loss = elbo(net, 4)
    expected = torch.stack([nn.functional.cross_entropy(net.call(w, X), Y) for w in weights]).mean()
    torch.testing.assert_close(loss.nll, expected)
    assert loss.outputs.shape == (4, 12, 2)


@pytest.mark.parametrize("posterior", ["mean_field", "point"])
@pytest.mark.parametrize("samples", [1, 4])
@pytest.mark.parametrize("temperature", [0.0, 0.5])
def test_backward_is_the_totals(network, posterior, samples, temperature):
    nets = [network(posterior=posterior) for _ in range(4)]
    elbo(nets[0], samples, temperature=temperature).backward()
    elbo(nets[1], samples, temperature=temperature).total.backward()
    (2 * elbo(nets[2], samples, temperature=temperature).total).backward()
    draw = nets[3].draw(None if samples == 1 else samples)
    plain = pt.Categorical().nll(nets[3].outputs(X, weights=draw), Y)
    (plain + temperature * kl_divergence(nets[3].posterior, nets[3].prior) / 40).backward()
    for a, b, doubled, reference in zip(*map(gradients, nets), strict=True):
        torch.testing.assert_close(a, b)
        torch.testing.assert_close(2 * a, doubled)
        torch.testing.assert_close(a, reference)


def test_backward_accumulates(network):
    once, twice = network(), network()
    elbo(once).backward()
    state = copy.deepcopy(twice.noise_source)
    elbo(twice).backward()
    twice.noise_source = state
    elbo(twice).backward()
    for a, b in zip(gradients(once), gradients(twice), strict=True):
        torch.testing.assert_close(2 * a, b)


def test_reading_the_parts_does_not_change_the_gradient(network):
    quiet, read = network(), network()
    elbo(quiet).backward()
    loss = elbo(read)
    assert loss.kl > 0
    assert loss.kl_by_layer
    loss.backward()
    for a, b in zip(gradients(quiet), gradients(read), strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("name", [name for name, recipe in OPTIMIZERS.items() if not recipe.needs])
@pytest.mark.parametrize("group", ["mean", "sd"])
def test_after_a_step_the_kl_is_that_of_before(network, name, group):
    net = network()
    optimizer = build_optimizer(name, [{"params": net.posterior.groups()[group]}], lr=0.1)
    loss = elbo(net)
    kl, total = kl_divergence(net.posterior, net.prior).item(), loss.item()
    loss.backward()
    optimizer.step()
    with pytest.raises(UsageError, match="before the optimiser's step"):
        loss.kl_by_layer  # noqa: B018
    assert loss.kl.item() == pytest.approx(kl, rel=1e-6)
    assert loss.item() == total
    assert elbo(net).kl.item() != pytest.approx(kl, rel=1e-6)


@pytest.mark.parametrize("samples", [1, 3])
def test_the_kl_of_a_point_at_temperature_0(network, samples):
    """It changes nothing in the loss, is differentiable, and is there after a step that moves few of the weights."""
    net = network(posterior="point")
    loss = elbo(net, temperature=0.0, samples=samples)
    (gradient,) = torch.autograd.grad(loss, net.posterior.mean, retain_graph=True)
    cold = elbo(net, temperature=1e-30, samples=samples)
    torch.testing.assert_close(torch.autograd.grad(cold, net.posterior.mean)[0], gradient)
    before = kl_divergence(net.posterior, net.prior)
    expected = torch.autograd.grad(before, net.posterior.mean)[0]
    torch.testing.assert_close(torch.autograd.grad(loss.kl, net.posterior.mean)[0], expected)
    late = elbo(net, temperature=0.0, samples=samples)
    with torch.no_grad():
        net.posterior.mean[1] += 1
    torch.testing.assert_close(late.kl, before)


@pytest.mark.parametrize("samples", [1, 3])
@pytest.mark.parametrize("prior", [pt.Gaussian(0.5), pt.StudentT(0.5)], ids=["gaussian", "student_t"])
def test_a_kl_that_is_left_out(network, monkeypatch, samples, prior):
    """The same loss and gradient; it is computed when it is read, and refused once the weights have moved."""
    net = network(posterior="point", prior=prior)
    whole, bare = (elbo(net, temperature=0.0, samples=samples, with_kl=kept) for kept in (True, False))
    assert bare.item() == whole.item()
    assert "kl" in vars(whole)
    assert "kl" not in vars(bare)
    gradients = [torch.autograd.grad(loss, net.posterior.mean)[0] for loss in (whole, bare)]
    assert torch.equal(*gradients)
    late, unread = (elbo(net, temperature=0.0, samples=samples, with_kl=False) for _ in range(2))
    torch.testing.assert_close(late.kl, whole.kl)
    exact = kl_divergence(net.posterior, net.prior)
    torch.testing.assert_close(*(torch.autograd.grad(kl, net.posterior.mean)[0] for kl in (bare.kl, exact)))
    with torch.no_grad():
        net.posterior.mean += 1
    torch.testing.assert_close(late.kl, whole.kl)
    with pytest.raises(UsageError, match="before the optimiser's step"):
        unread.kl  # noqa: B018
    assert "kl=" in repr(late)
    assert "kl=" not in repr(unread)


def test_a_kl_that_is_read_late_where_gradients_are_off(network):
    loss = elbo(network(posterior="point"), temperature=0.0, with_kl=False)
    with torch.no_grad():
        assert loss.kl.requires_grad


def test_weights_that_are_nan_have_not_moved(network):
    """It is the loss that is not finite: that is to be said."""
    net = network(posterior="point")
    with torch.no_grad():
        net.posterior.mean.fill_(torch.nan)
    loss = elbo(net, temperature=0.0, with_kl=False)
    assert loss.replaced(nll=loss.nll, kl=loss.known_kl, outputs=loss.outputs).known_kl is None
    assert loss.kl.isnan()
    assert loss.known_kl is loss.kl


def test_a_kl_that_counts_is_never_left_out(network):
    for posterior, temperature, weight in (("point", 0.5, 1.0), ("mean_field", 0.0, 1.0), ("point", 1.0, -1.0)):
        loss = elbo(network(posterior=posterior), temperature=temperature, kl_weight=weight, with_kl=False)
        assert loss.known_kl is not None


def test_learnt_noise_gets_its_gradient():
    net = pt.bayesian(nn.Linear(3, 1), rho=-2.0, seed=1)
    likelihood = pt.GaussianNoise("learnt")
    pt.negative_elbo(net, likelihood, X, X[:, :1], num_data=12).backward()
    assert likelihood.rho.grad.abs() > 0


def test_temperature_zero_leaves_the_prior_out(network):
    narrow, wide = (network(prior=pt.Gaussian(scale)) for scale in (1e-3, 10.0))
    for net in (narrow, wide):
        elbo(net, temperature=0.0).backward()
    for a, b in zip(gradients(narrow), gradients(wide), strict=True):
        assert torch.equal(a, b)


def test_point_with_temperature_one_is_map(network):
    net = network(posterior="point", prior=pt.Gaussian(0.5))
    loss = elbo(net)
    log_prior = torch.distributions.Normal(0, 0.5).log_prob(net.posterior.mean).sum()
    joint = -nn.functional.cross_entropy(net(X), Y) * 40 + log_prior
    torch.testing.assert_close(loss.total, -joint / 40)


@pytest.mark.parametrize(
    "wrong",
    [{"num_data": 0}, {"samples": 0}, {"temperature": -1.0}, {"temperature": float("nan")}],
    ids=str,
)
def test_wrong_values(network, wrong):
    with pytest.raises(UsageError):
        pt.negative_elbo(network(), pt.Categorical(), X, Y, **{"num_data": 12, **wrong})


def test_printing_is_one_line_and_costs_no_error():
    x, y = torch.zeros(4, 3), torch.zeros(4, dtype=torch.long)
    for prior in (pt.Gaussian(0.5), pt.StudentT(0.5)):
        net = pt.bayesian(nn.Linear(3, 2), prior=prior, seed=0)
        loss = pt.negative_elbo(net, pt.Categorical(), x, y, num_data=40, temperature=0.1)
        shown = repr(loss)
        parts = f"nll={loss.nll.item():.6g}, kl={loss.kl.item():.6g}, temperature=0.1, num_data=40"
        assert shown == f"Loss({loss.item():.6g}, {parts})"
        with torch.no_grad():
            net.posterior.mean.add_(1)
        assert repr(loss) == shown


@pytest.mark.parametrize("gradient", ["analytic", "path", "score"])
def test_a_weight_of_two_is_the_datum_twice(network, gradient):
    weighted, repeated = network(), network()
    weight = torch.ones(12)
    weight[3], weight[5] = 2, 0
    rows = torch.tensor([0, 1, 2, 3, 3, 4, 6, 7, 8, 9, 10, 11])
    losses = [
        pt.negative_elbo(net, pt.Categorical(), X[r], Y[r], num_data=40, samples=2, gradient=gradient, weight=w)
        for net, r, w in ((weighted, slice(None), weight), (repeated, rows, None))
    ]
    torch.testing.assert_close(losses[0].total, losses[1].total)
    for loss in losses:
        loss.backward()
    for a, b in zip(gradients(weighted), gradients(repeated), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)
