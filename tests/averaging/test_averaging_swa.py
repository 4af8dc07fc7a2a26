import pytest
import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel, update_bn

import posterity as pt
from posterity.averaging import SWA, reestimate_batch_norm

NORMED = {"width": 6, "norm": True, "activation": nn.ReLU}


def move(net, seed):
    """A step of a training, so to speak: every parameter changes."""
    g = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for p in net.parameters():
            p += 0.1 * torch.randn(p.shape, generator=g)


@pytest.mark.parametrize("posterior", ["point", "mean_field", "low_rank"])
def test_means_are_averaged_and_the_spread_is_the_last(network, posterior):
    net, swa, kept = network(**NORMED, posterior=posterior, seed=0), SWA(), []
    for seed in range(5):
        move(net, seed)
        swa.update(net)
        kept.append(net.posterior.mean.detach().clone())
    averaged = swa.network(net)
    torch.testing.assert_close(averaged.posterior.mean.detach(), torch.stack(kept).mean(0))
    for name, value in net.posterior.named_parameters():
        if name != "mean":
            assert torch.equal(averaged.posterior.get_parameter(name), value)
    assert torch.equal(net.posterior.mean, kept[-1])  # the iterate stays
    assert swa.count == 5


def test_agrees_with_pytorch(module):
    """A point posterior with its batch-norm statistics against torch.optim.swa_utils, on one batch of all rows."""
    plain, swa = module(**NORMED), SWA()
    net = pt.bayesian(plain, posterior="point")
    theirs = AveragedModel(plain)
    for seed in range(4):
        g = torch.Generator().manual_seed(seed)
        noise = {name: torch.randn(p.shape, generator=g) for name, p in plain.named_parameters()}
        with torch.no_grad():
            for name, p in plain.named_parameters():
                p += noise[name]
            net.posterior.mean += net.layout.flatten(noise)
        theirs.update_parameters(plain)
        swa.update(net)
    x = torch.randn(40, 3, generator=torch.Generator().manual_seed(9))
    averaged = swa.network(net)
    reestimate_batch_norm(averaged, x, batch_size=40, seed=0)
    update_bn([x], theirs)
    views = averaged.layout.views(averaged.posterior.mean)
    for name, p in theirs.module.named_parameters():
        torch.testing.assert_close(views[name], p)
    for name, buffer in theirs.module.named_buffers():
        torch.testing.assert_close(averaged.model.get_buffer(name), buffer)
    averaged.eval()
    torch.testing.assert_close(averaged(x), theirs.eval()(x))


def test_what_else_is_trained_is_averaged_too(network):
    likelihood = pt.GaussianNoise("learnt")
    net, swa, kept = network(**NORMED, select="0.*", likelihood=likelihood, seed=0), SWA(), []
    net.model[3].bias.requires_grad_(False)
    for seed in range(3):
        move(net, seed)
        swa.update(net)
        kept.append({name: p.detach().clone() for name, p in net.named_parameters()})
    averaged = swa.network(net)
    names = [n for n in kept[0] if not n.startswith("posterior.") and n != "model.3.bias"]
    assert {"model.3.weight", "model.1.bias"} < set(names)
    assert any(n.startswith("likelihood.") for n in names)
    for name in names:
        expected = torch.stack([k[name] for k in kept]).mean(0)
        torch.testing.assert_close(averaged.get_parameter(name).detach(), expected)
    assert torch.equal(averaged.get_parameter("model.3.bias"), kept[-1]["model.3.bias"])


def test_one_snapshot_is_the_iterate(network):
    net, swa = network(**NORMED, seed=0), SWA()
    swa.update(net)
    averaged = swa.network(net)
    assert all(torch.equal(a, b) for a, b in zip(averaged.parameters(), net.parameters(), strict=True))
    assert all(p.grad is None for p in averaged.parameters())


def test_restart_moves_the_iterate_to_the_average(network):
    net, swa = network(**NORMED, select="0.*", seed=0), SWA()
    for seed in range(2):
        move(net, seed)
        swa.update(net)
    averaged, rho = swa.network(net), net.posterior.rho.detach().clone()
    swa.restart(net)
    assert torch.equal(net.posterior.mean, averaged.posterior.mean)
    assert torch.equal(net.model[3].weight, averaged.model[3].weight)
    assert torch.equal(net.posterior.rho, rho)


def test_statistics_are_those_of_draws_of_the_posterior(network):
    torch.manual_seed(1)
    net, x, many = network(**NORMED, rho=-1.0, seed=0), torch.randn(2000, 3) + 5, 500
    reestimate_batch_norm(net, x, batch_size=2000 // many, seed=0)
    views = net.layout.views(net.draw(1000).detach())  # E over weights and rows of the first layer's outputs
    hidden = torch.einsum("ni,soi->sno", x[:100], views["0.weight"]) + views["0.bias"][:, None]
    error = hidden.std((0, 1)) / many**0.5  # each batch of the pass saw one draw
    assert ((net.model[1].running_mean - hidden.mean((0, 1))).abs() < 5 * error).all()
    single = net.layout.views(net.posterior.mean.detach())
    narrow = nn.functional.linear(x, single["0.weight"], single["0.bias"]).var(0)
    assert net.model[1].num_batches_tracked == many
    assert (net.model[1].running_var > narrow).all()  # drawn weights are larger than their means


def _first(net):
    views = net.layout.views(net.posterior.mean)
    return views["0.weight"], views["0.bias"]


def test_statistics_of_a_point_are_exact_for_equal_batches(network):
    torch.manual_seed(1)
    net = network(**NORMED, posterior="point", seed=0)
    x = torch.randn(60, 3) + 5
    net.train()
    net(torch.randn(60, 3))  # statistics from elsewhere, to be forgotten
    reestimate_batch_norm(net, x, batch_size=20, seed=0)
    hidden = nn.functional.linear(x, *_first(net))
    torch.testing.assert_close(net.model[1].running_mean, hidden.mean(0).detach())
    assert net.model[1].num_batches_tracked == 3


def test_modes_momentum_and_generators_are_put_back(network):
    net = network(**NORMED, rho=-2.0, seed=0)
    net.eval()
    net.model[0].train()
    modes = [m.training for m in net.modules()]
    noise, source, before = net.noise_source.state(), net.noise_source, torch.get_rng_state()
    reestimate_batch_norm(net, torch.randn(7, 3), batch_size=6, seed=0)  # 7 rows: 3 and 4, not 6 and 1
    after = torch.get_rng_state()
    assert [m.training for m in net.modules()] == modes
    assert net.model[1].momentum == 0.1
    assert net.noise_source is source
    assert torch.equal(source.state(), noise)
    torch.set_rng_state(before)
    torch.randn(7, 3)
    assert torch.equal(torch.get_rng_state(), after)


def test_a_network_without_batch_norm_is_left_alone():
    net = pt.bayesian(nn.Linear(3, 2), seed=0)
    before = net.noise_source.state()
    reestimate_batch_norm(net, torch.randn(5, 3), batch_size=2, seed=0)
    assert torch.equal(net.noise_source.state(), before)
