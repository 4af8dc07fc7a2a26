"""The loss is a tensor: what loops, scalers and frameworks do with one, they can do with it."""

import math

import pytest
import torch
from torch import nn

import posterity as pt
from posterity.core.errors import UsageError

X = torch.randn(12, 3, generator=torch.Generator().manual_seed(0))
Y = torch.arange(12) % 2
PRIORS = {"gaussian": pt.Gaussian(0.5), "centred": pt.Gaussian(0.5, mean=0.1), "student_t": pt.StudentT(0.5)}


def elbo(net, **options):
    return pt.negative_elbo(net, pt.Categorical(), X, Y, num_data=40, **options)


def gradient(net):
    return torch.cat([p.grad for p in net.posterior.parameters()])


@pytest.fixture
def wanted(network):
    """Value and gradient of the loss of a network as `network()` makes it, by its parts and autograd alone."""
    net = network()
    nll = pt.Categorical().nll(net.outputs(X, weights=net.draw()), Y)
    total = nll + pt.kl_divergence(net.posterior, net.prior) / 40
    total.backward()
    return total.item(), gradient(net)


ARITHMETIC = {
    "divided": (lambda loss: loss / 4, 0.25, 0),
    "multiplied": (lambda loss: 0.25 * loss, 0.25, 0),
    "negated": (lambda loss: -loss, -1, 0),
    "regularised": (lambda loss: loss + torch.tensor(2.0), 1, 2),
    "summed": (lambda loss: sum([loss, loss]), 2, 0),
    "stacked": (lambda loss: torch.stack([loss, loss]).mean(), 1, 0),
    "averaged": (lambda loss: loss.mean(), 1, 0),
    "subtracted": (lambda loss: 3 - loss, -1, 3),
}


@pytest.mark.parametrize("name", ARITHMETIC)
def test_arithmetic(network, wanted, name):
    function, factor, shift = ARITHMETIC[name]
    net = network()
    result = function(elbo(net))
    result.backward()
    assert result.item() == pytest.approx(factor * wanted[0] + shift, rel=1e-6)
    torch.testing.assert_close(gradient(net), factor * wanted[1])


def test_in_place_arithmetic_leaves_the_parts(network, wanted):
    loss = elbo(network())
    nll, half = loss.nll.item(), loss
    half /= 2
    assert half.item() == pytest.approx(wanted[0] / 2, rel=1e-6)
    assert loss.nll.item() == nll


def test_reading(network, wanted):
    loss = elbo(network())
    value = loss.item()
    assert value == pytest.approx(wanted[0], rel=1e-6)
    assert isinstance(loss, torch.Tensor)
    assert float(loss) == value
    assert f"{loss:.3f}" == f"{value:.3f}"
    assert f"{loss}" == f"{value}"
    assert torch.isfinite(loss)
    assert math.isfinite(loss)
    assert loss < value + 1
    assert not loss > value
    assert max(loss, torch.tensor(0.0)) is loss
    assert (loss.shape, loss.dtype, loss.requires_grad) == ((), torch.float32, True)
    assert loss.detach().item() == value
    assert not loss.detach().requires_grad
    assert type(loss.detach()) is type(loss / 2) is type(loss.total) is torch.Tensor
    assert loss.detach().numpy() == pytest.approx(value)


@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("posterior", ["mean_field", "tied", "point", "low_rank", "full"])
def test_value_after_the_step(network, posterior, prior):
    net = network(posterior=posterior, prior=PRIORS[prior])
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    loss = elbo(net)
    kl = pt.kl_divergence(net.posterior, net.prior).item() if net.posterior.has_kl(net.prior) else loss.kl.item()
    before = loss.nll.item() + kl / 40
    loss.backward()
    optimizer.step()
    assert loss.item() == pytest.approx(before, rel=1e-5)
    assert loss.kl.item() == pytest.approx(kl, rel=1e-5)
    assert pt.kl_divergence(net.posterior, net.prior).item() != pytest.approx(kl, rel=1e-5)


@pytest.mark.parametrize("options", [{"estimator": "local"}, {"estimator": "flipout"}, {"gradient": "path"}], ids=str)
def test_value_with_other_passes(network, options):
    net = network()
    loss = elbo(net, **options)
    loss.backward()
    torch.optim.SGD(net.parameters(), lr=0.1).step()
    assert loss.item() == pytest.approx(loss.nll.item() + loss.kl.item() / 40, rel=1e-6)


@pytest.mark.parametrize("estimator", ["sample", "local"])
def test_a_graph_that_is_kept_can_be_used_again(network, wanted, estimator):
    net = network()
    loss = elbo(net, estimator=estimator)
    loss.backward(retain_graph=True)
    first = gradient(net).clone()
    loss.backward()
    torch.testing.assert_close(gradient(net), 2 * first)
    if estimator == "sample":
        torch.testing.assert_close(first, wanted[1])


def test_backward_with_a_gradient(network, wanted):
    net = network()
    elbo(net).backward(gradient=torch.tensor(3.0))
    torch.testing.assert_close(gradient(net), 3 * wanted[1])
    net.zero_grad()
    loss = elbo(network_like(net))
    found = torch.autograd.grad(loss, [loss.nll, loss.kl])
    assert [g.item() for g in found] == pytest.approx([1, 1 / 40])


def network_like(net):
    return pt.bayesian(nn.Linear(3, 2), seed=net.num_weights)


def test_grad_scaler(network, wanted):
    net = network()
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10)
    optimizer = torch.optim.SGD(net.parameters(), lr=1.0)
    before = torch.cat([p.detach().clone() for p in net.posterior.parameters()])
    scaler.scale(elbo(net)).backward()
    torch.testing.assert_close(gradient(net), 2.0**10 * wanted[1])
    scaler.step(optimizer)
    scaler.update()
    after = torch.cat([p.detach() for p in net.posterior.parameters()])
    torch.testing.assert_close(before - after, wanted[1], atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("returned", [lambda loss: loss, lambda loss: {"loss": loss}])
def test_lightnings_habits(network, wanted, returned):
    """What its ClosureResult and its automatic optimisation do with the answer of training_step."""
    net, steps = network(), 4
    output = returned(elbo(net))
    loss = output if isinstance(output, torch.Tensor) else output["loss"]
    closure_loss = loss / steps
    logged = closure_loss.detach().clone()
    closure_loss.backward()
    torch.optim.SGD(net.parameters(), lr=0.1).step(lambda: closure_loss)
    assert logged.item() == pytest.approx(wanted[0] / steps, rel=1e-6)
    assert not logged.requires_grad


def test_accelerates_habits(network, wanted):
    """Accelerator.backward divides by the steps it gathers, and lets its scaler scale."""
    net, scaler = network(), torch.amp.GradScaler("cpu", enabled=False)
    loss = elbo(net)
    scaler.scale(loss / 2).backward()
    torch.testing.assert_close(gradient(net), wanted[1] / 2)
    gathered = [torch.zeros(1), loss.detach().reshape(1)]
    assert torch.cat(gathered).sum().item() == pytest.approx(wanted[0], rel=1e-6)


def test_a_closure_of_lbfgs(network):
    net = network(posterior="point")
    optimizer = torch.optim.LBFGS(net.parameters(), max_iter=5)

    def closure():
        optimizer.zero_grad()
        loss = elbo(net)
        loss.backward()
        return loss

    first = optimizer.step(closure)
    assert elbo(net) < first


def test_infinite_kl_with_no_weight_on_it(network):
    net = network(prior=pt.Gaussian(0.5))
    with torch.no_grad():
        net.posterior.rho.fill_(-200.0)
    loss = elbo(net, temperature=0.0)
    assert loss.item() == loss.nll.item()
    loss.backward()
    assert gradient(net).isfinite().all()


@pytest.mark.parametrize("rho", [-30.0, -6.0, -2.5, -2.0, 0.0, 5.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_kls_value_without_logarithms_is_the_kl(network, rho, dtype):
    """Also where the series in the standard deviation is left for logarithms."""
    net = network(dtype=dtype, prior=pt.Gaussian("kaiming"))
    with torch.no_grad():
        net.posterior.rho.fill_(rho).add_(0.1 * torch.randn_like(net.posterior.rho))
    loss = pt.negative_elbo(net, pt.Categorical(), X.to(dtype), Y, num_data=40)
    torch.testing.assert_close(loss.kl, pt.kl_divergence(net.posterior, net.prior))


def test_wrappers_are_refused_with_advice(network):
    net = network()
    for wrapped in (torch.compile(net, backend="eager"), nn.DataParallel(net)):
        with pytest.raises(UsageError, match="process_group"):
            elbo(wrapped)
    with pytest.raises(UsageError, match=r"bayesian\(Linear"):
        elbo(nn.Linear(3, 2))
