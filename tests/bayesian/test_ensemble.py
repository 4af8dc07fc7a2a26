"""`ensemble`: what its members start from, what is copied, and what cannot be mixed."""

import copy

import pytest
import torch
from torch import nn

import posterity as pt
from posterity.core.errors import UsageError
from posterity.ensemble import members


def test_the_first_member_is_the_network_and_the_others_are_drawn_anew(network):
    net = network(likelihood=pt.Categorical())
    made = pt.ensemble(net, 3, seed=5)
    first, *others = made.posterior.parts
    assert torch.equal(first.mean, net.posterior.mean)
    for q in others:
        assert torch.equal(q.sd, net.posterior.sd)
        assert (q.mean != net.posterior.mean).all()
    assert (others[0].mean != others[1].mean).all()
    assert made.likelihood.kind == "categorical"


def test_the_others_start_as_the_modules_do(network):
    """Within the bounds of PyTorch's own initialisation, and as a fresh module of that seed."""
    made = pt.ensemble(network(3, 2, width=100), 2, seed=5)
    views = made.layout.views(made.posterior.parts[1].mean.detach())
    for name, bound in (("0.weight", 3**-0.5), ("0.bias", 3**-0.5), ("2.weight", 0.1), ("2.bias", 0.1)):
        assert 0.5 * bound < views[name].abs().max() <= bound


@pytest.mark.parametrize(
    "module", [nn.Conv2d(2, 3, 3), nn.LSTM(2, 3), nn.Embedding(4, 3, padding_idx=1), nn.LayerNorm(3)]
)
def test_every_kind_of_layer_is_drawn_anew(module):
    made = pt.ensemble(pt.bayesian(module, seed=0), 2, seed=0)
    first, second = (made.layout.views(q.mean.detach()) for q in made.posterior.parts)
    drawn = [name for name in first if not torch.equal(first[name], second[name])]
    assert drawn == ([] if isinstance(module, nn.LayerNorm) else list(first))


def test_it_depends_on_the_seed_alone(network):
    net = network()
    state = torch.get_rng_state()
    one, same, other = (pt.ensemble(net, 2, seed=seed) for seed in (5, 5, 6))
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(one.posterior.mean, same.posterior.mean)
    assert torch.equal(one.draw(), same.draw())
    assert not torch.equal(one.posterior.mean, other.posterior.mean)
    larger = pt.ensemble(net, 3, seed=5)  # a member is the same however many there are
    assert torch.equal(larger.posterior.parts[1].mean, one.posterior.parts[1].mean)
    torch.manual_seed(3)
    drawn = pt.ensemble(net, 2)
    torch.manual_seed(3)
    assert torch.equal(pt.ensemble(net, 2).posterior.mean, drawn.posterior.mean)


def test_what_is_given_stays_as_it_is(network):
    net = network()
    before = copy.deepcopy(net.state_dict())
    made = pt.ensemble(net, 2, seed=0)
    with torch.no_grad():
        for parameter in made.posterior.parameters():
            parameter += 1
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())


def test_frozen_weights_are_shared_and_left_alone(module):
    model = module()
    model[0].requires_grad_(False)
    net = pt.bayesian(model, likelihood=pt.Categorical(), seed=0)
    made = pt.ensemble(net, 2, seed=0)
    for each in (net, *members(made)):
        assert torch.equal(each.model[0].weight, model[0].weight)


def test_a_list_is_mixed_as_it_is(network):
    nets = [network(init=k, likelihood=pt.Categorical()) for k in range(3)]
    made = pt.ensemble(nets, seed=0)
    for q, net in zip(made.posterior.parts, nets, strict=True):
        assert torch.equal(q.mean, net.posterior.mean)
    x = torch.randn(4, 3)
    assert made(x).shape == (4, 2)
    assert made.predict(x, 6, seed=0).samples.shape == (6, 4, 2)


def test_a_prediction_uses_the_members_evenly(network):
    nets = [network(init=k, rho=-30.0, likelihood=pt.Categorical()) for k in range(3)]
    x = torch.randn(4, 3)
    expected = torch.stack([net.predict(x, 1, seed=0).mean for net in nets])
    found = pt.ensemble(nets, seed=0).predict(x, 6, seed=0)
    torch.testing.assert_close(found.samples, torch.cat([expected, expected]), atol=1e-5, rtol=0)
    torch.testing.assert_close(found.mean, expected.mean(0), atol=1e-5, rtol=0)


def test_learnt_noises_are_pooled_by_their_variance(network):
    nets = [network(outputs=1, init=k, likelihood=pt.GaussianNoise()) for k in range(2)]
    for net, sd in zip(nets, (0.3, 0.4), strict=True):
        net.likelihood.adapt(torch.full((1, 1, 1), sd), torch.zeros(1, 1), 1.0)
    made = pt.ensemble(nets, seed=0)
    assert made.likelihood.learnt()["noise"] == pytest.approx((0.125) ** 0.5)
    x = torch.randn(4, 3)
    each = [net.predict(x, 1, seed=0).aleatoric for net in nets]  # variances
    torch.testing.assert_close(made.predict(x, 2, seed=0).aleatoric, sum(each) / 2)
    same = pt.ensemble([nets[0], nets[0]], seed=0)
    assert torch.equal(same.likelihood.rho, nets[0].likelihood.rho)


class Own(nn.Module):
    """Weights that no module draws."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(2, 3))

    def forward(self, x):
        return x @ self.scale.T


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (lambda make: (make(),), "takes the count of its members, 1 or more, not None"),
        (lambda make: (make(), 0), "1 or more, not 0"),
        (lambda make: (make(), True), "1 or more, not True"),
        (lambda make: ([make()], 2), r"count \(2\) goes with one network"),
        (lambda make: ([],), "the list is empty"),
        (lambda make: ([nn.Linear(1, 1)],), r"make one with bayesian\(Linear"),
        (lambda make: (pt.ensemble(make(), 2), 2), "an ensemble already"),
        (lambda make: ([pt.ensemble(make(), 2)],), "an ensemble already"),
        (lambda make: (make(select="0.*"), 2), "the weights 2.weight, 2.bias are trained but not part"),
        (lambda make: (make(norm=True), 2), "the buffers 1.running_mean, .* each member would have its own"),
        (lambda make: (pt.bayesian(Own()), 2), "no module draws scale anew .* give their list"),
        (lambda make: ([make(), make(activation=nn.ReLU)],), r"one architecture; .* Tanh\(\) and .* ReLU\(\)"),
        (lambda make: ([make(), make(width=5)],), "have one architecture"),
        (lambda make: ([make(), make(posterior="point")],), "one family; these have mean_field and point"),
        (lambda make: ([make(), make(prior=pt.Laplace())],), "one kind of prior"),
        (lambda make: ([make(), make(prior=0.3)],), "share the prior; these have other values of"),
        (lambda make: ([make(), make(likelihood=pt.Categorical())],), "one likelihood; these have None and"),
        (lambda make: ([make(), make(dtype=torch.float64)],), "one precision"),
    ],
)  # fmt: skip
def test_refusals(network, arguments, message):
    with pytest.raises(UsageError, match=message):
        pt.ensemble(*arguments(network))


def test_a_bag_is_not_drawn_anew_but_mixed(network):
    nets = [network(posterior="point", likelihood=pt.Categorical()) for _ in range(2)]
    for net in nets:
        net.posterior = pt.Samples(torch.randn(3, net.num_weights))
    with pytest.raises(UsageError, match="no first values to be drawn anew"):
        pt.ensemble(nets[0], 2)
    assert len(pt.ensemble(nets, seed=0).predict(torch.randn(4, 3), 10).samples) == 6


def test_networks_of_other_units_are_not_mixed():
    x = torch.randn(40, 2, generator=torch.Generator().manual_seed(0))
    y = 700 + 20 * x.sum(1)

    def trained(rows, **options):
        net = pt.bayesian(torch.nn.Linear(2, 1), seed=0)
        pt.fit(net, (x[rows], y[rows] if options else (y[rows] - 700) / 40), epochs=1, **options)
        return net

    first, second = trained(slice(0, 20), standardise=True), trained(slice(20, 40), standardise=True)
    with pytest.raises(UsageError, match="share the standardisation; these have other values of x_mean, x_sd, y_mean"):
        pt.ensemble([first, second])
    with pytest.raises(UsageError, match="share the standardisation"):
        pt.ensemble([trained(slice(0, 20)), first])
    pt.ensemble([first, first])
