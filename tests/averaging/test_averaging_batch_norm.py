"""Batch statistics of an average: those of a pass with its own draws."""

import torch
from torch import nn

import posterity as pt
from posterity.averaging import reestimate_batch_norm

NORMED = {"width": 6, "norm": True, "activation": nn.ReLU}


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
