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
