"""The loss of an epoch does not depend on how it is cut into batches."""

import pytest
import torch

import posterity as pt
from posterity.objectives import kl_weights

N = 24
G = torch.Generator().manual_seed(0)
X, Y = torch.randn(N, 3, generator=G, dtype=torch.float64), torch.randint(2, (N,), generator=G)


@pytest.fixture
def net(network):
    return network(dtype=torch.float64, rho=-1.0)


def epoch(net, order, batch_size, samples=2, lam=1.0):
    """Loss and gradient averaged over an epoch's batches, all with the same weight noise."""
    state = net.noise_source.state()
    batches = order.split(batch_size)
    net.zero_grad()
    total = 0.0
    for rows, weight in zip(batches, kl_weights(len(batches), lam).tolist(), strict=True):
        net.noise_source.restore(state)
        loss = pt.negative_elbo(net, pt.Categorical(), X[rows], Y[rows], num_data=N, samples=samples, kl_weight=weight)
        total += loss.item() / len(batches)
        loss.backward()
    net.noise_source.restore(state)
    return total, torch.cat([p.grad / len(batches) for p in net.posterior.parameters()])


@pytest.mark.parametrize("batch_size", [1, 2, 3, 8, 12])
@pytest.mark.parametrize("samples", [1, 3])
def test_equal_batches_average_to_the_full_batch(net, batch_size, samples):
    full, full_gradient = epoch(net, torch.arange(N), N, samples)
    value, gradient = epoch(net, torch.randperm(N), batch_size, samples)
    assert value == pytest.approx(full, rel=1e-9)
    torch.testing.assert_close(gradient, full_gradient, rtol=1e-7, atol=1e-10)


@pytest.mark.parametrize("lam", [0.5, 2.0])
def test_reweighting_keeps_the_epochs_kl(net, lam):
    full, _ = epoch(net, torch.arange(N), N)
    value, _ = epoch(net, torch.arange(N), 4, lam=lam)
    assert value == pytest.approx(full, rel=1e-9)


@pytest.mark.parametrize("batch_size", [7, 16])
def test_unequal_batches_average_to_it_in_expectation(net, batch_size):
    full, _ = epoch(net, torch.arange(N), N)
    g = torch.Generator().manual_seed(1)
    values = torch.tensor([epoch(net, torch.randperm(N, generator=g), batch_size)[0] for _ in range(150)])
    spread = values.std()
    assert spread > 1e-4  # single epochs do differ: the last batch's rows weigh more
    assert (values.mean() - full).abs() < 3 * spread / len(values) ** 0.5


def test_kl_is_divided_by_the_data_not_the_batch(net):
    state = net.noise_source.state()
    kl = []
    for rows in (1, 6, N):
        net.noise_source.restore(state)
        loss = pt.negative_elbo(net, pt.Categorical(), X[:rows], Y[:rows], num_data=N)
        kl.append((loss.total - loss.nll).item())
    assert kl == pytest.approx([kl[0]] * 3)
    assert kl[0] == pytest.approx(loss.kl.item() / N)
