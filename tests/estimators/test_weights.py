"""Samples that are filled when they are used."""

import torch
from torch import nn

import posterity as pt
from posterity.core.randomness import NoiseSource
from posterity.estimators.weights import PassWeights


def weights(noise=None):
    torch.manual_seed(0)
    net = pt.bayesian(nn.Sequential(nn.Conv2d(2, 3, 2), nn.Linear(3, 2)).double(), rho=-1.0, seed=1)
    sizes = net.layout.sizes
    noise = None if noise is None else noise(net)
    return net, PassWeights(net.posterior.mean.split(sizes), net.posterior.sd.split(sizes), net.layout, noise)


def test_unfilled_samples_are_nan_and_take_no_memory():
    """What is not filled cannot pass for a weight, least of all for its mean."""
    net, made = weights()
    for tensor, entry in zip(made.samples, net.layout.entries, strict=True):
        assert tensor.isnan().all()
        assert tuple(tensor.shape) == entry.shape
        assert tensor.untyped_storage().nbytes() == 8


def test_a_filled_sample_has_its_value_and_its_gradient():
    """w = mean + sd eps; dL/dmean = G, dL/dsd = eps G, beside the others' M, and V through sd^2 or sd eps."""
    for noise in (None, lambda net: NoiseSource(5).normal((net.num_weights,), net.posterior.mean)):
        net, made = weights(noise)
        made.fill(0, NoiseSource(2))
        made.fill(0, NoiseSource(3))  # once only
        eps = made.noises[0]
        mean, sd = (
            net.layout.entries[0].flat(net.layout.views(v)["0.weight"]) for v in (net.posterior.mean, net.posterior.sd)
        )
        torch.testing.assert_close(net.layout.entries[0].flat(made.samples[0]), mean + sd * eps)
        assert made.samples[1].isnan().all()
        g = [torch.randn_like(t) for t in (made.samples[0], made.means[0], made.spreads[0])]
        loss = (made.samples[0] * g[0]).sum() + (made.means[0] * g[1]).sum() + (made.spreads[0] * g[2]).sum()
        found = torch.autograd.grad(loss, (net.posterior.mean, net.posterior.rho))
        flat = [net.layout.entries[0].flat(t) for t in g]
        spread = sd.square() if noise is None else sd * eps
        plain = ((mean + sd * eps) * flat[0] + mean * flat[1] + spread * flat[2]).sum()
        expected = torch.autograd.grad(plain, (net.posterior.mean, net.posterior.rho))
        for a, b in zip(found, expected, strict=True):
            torch.testing.assert_close(a, b)


def test_filling_one_sample_does_not_disturb_anothers_backward():
    net, made = weights()
    made.fill(0, NoiseSource(2))
    loss = made.samples[0].square().sum()  # saves the first sample
    made.fill(1, NoiseSource(2))
    (loss + made.samples[1].square().sum()).backward()
    assert net.posterior.mean.grad.isfinite().all()
