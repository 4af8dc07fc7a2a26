"""BayesianModule as an nn.Module: state, copies, modes, buffers, errors."""

import copy
import math

import pytest
import torch
from torch import nn

import posterity as pt
from posterity.core.errors import UnknownNameError, UsageError

X = torch.randn(6, 3, generator=torch.Generator().manual_seed(0))


def test_starts_at_the_modules_weights(module):
    model = module(norm=True)
    net = pt.bayesian(model, prior=pt.Gaussian(0.5), rho=-4.0)
    views = net.layout.views(net.posterior.mean)
    assert all(torch.equal(views[n], p) for n, p in model.named_parameters())
    torch.testing.assert_close(net.posterior.sd, torch.full((net.num_weights,), math.log1p(math.exp(-4.0))))
    assert torch.equal(net.prior.mean, torch.zeros(1))


def test_default_sd_and_relative_sd(network, module):
    plain = pt.bayesian(module(norm=True))
    torch.testing.assert_close(plain.posterior.sd, 0.1 * plain.prior.sd)
    net = network(norm=True, prior=pt.Gaussian("xavier"), relative_sd=0.25)
    torch.testing.assert_close(net.posterior.sd, 0.25 * net.prior.sd)


def test_pretrained_prior_starts_with_no_penalty_on_the_mean(network):
    net = network(norm=True, prior=pt.Gaussian(0.7, mean="pretrained"), relative_sd=1.0)
    assert pt.kl_divergence(net.posterior, net.prior).item() == pytest.approx(0, abs=1e-4)
    assert torch.equal(net.prior.mean, net.posterior.mean)
    with torch.no_grad():
        net.posterior.mean += 0.7  # one prior sd: half a nat a weight
    assert pt.kl_divergence(net.posterior, net.prior).item() == pytest.approx(34 / 2, rel=1e-4)


def test_state_dict_round_trip_with_the_prior(network):
    one = network(
        norm=True, prior=pt.Gaussian(0.3, mean="pretrained"), likelihood=pt.GaussianNoise("learnt", num_targets=2)
    )
    one(X)
    torch.manual_seed(9)
    other = pt.bayesian(
        nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Tanh(), nn.Linear(4, 2)),
        prior=pt.Gaussian(2.0, mean=1.0),
        likelihood=pt.GaussianNoise("learnt", num_targets=2),
    )
    other.load_state_dict(one.state_dict())
    weights = one.draw().detach()
    torch.testing.assert_close(other.eval().call(weights, X), one.eval().call(weights, X))
    assert torch.equal(other.prior.sd, one.prior.sd)
    torch.testing.assert_close(
        pt.kl_divergence(other.posterior, other.prior), pt.kl_divergence(one.posterior, one.prior)
    )


def test_deepcopy_is_independent_and_draws_the_same(network):
    net = network(norm=True, select=["0.*", "3.weight"])
    net(X)
    twin = copy.deepcopy(net)
    torch.testing.assert_close(twin(X), net(X))
    before = twin.state_dict()["model.3.bias"].clone(), twin.posterior.mean.clone(), twin.draw()
    twin_state = twin.noise_source.state()
    with torch.no_grad():
        for parameter in net.parameters():
            parameter += 1
    net(100 * X)
    assert torch.equal(twin.state_dict()["model.3.bias"], before[0])
    assert torch.equal(twin.posterior.mean, before[1])
    assert torch.equal(twin.noise_source.state(), twin_state)
    assert not torch.allclose(twin.model[1].running_mean, net.model[1].running_mean)
    # The copy fills its own slots.
    assert not torch.allclose(twin.eval().call(twin.posterior.mean, X), net.eval().call(net.posterior.mean, X))


def test_deepcopy_of_a_recurrent_network():
    net = pt.bayesian(nn.LSTM(3, 2), rho=-2.0, seed=1)
    twin = copy.deepcopy(net)
    assert torch.equal(net(X)[0], twin(X)[0])


def test_batch_statistics_move_in_train_only(network):
    net = network(norm=True)
    start = net.model[1].running_mean.clone()
    net.eval()(X)
    assert torch.equal(net.model[1].running_mean, start)
    net.train()(X)
    assert not torch.allclose(net.model[1].running_mean, start)
    assert net.model[1].num_batches_tracked == 1
    net.outputs(X, samples=3)
    assert net.model[1].num_batches_tracked == 4


def test_selected_weights_are_random_and_the_others_plain(module):
    model = module(norm=True)
    net = pt.bayesian(model, select="3.*", rho=-1.0).eval()
    names = {n for n, _ in net.named_parameters()}
    assert names == {
        "posterior.mean", "posterior.rho", "model.0.weight", "model.0.bias", "model.1.weight", "model.1.bias",
    }  # fmt: skip
    net(X).sum().backward()
    assert all(p.grad is not None for p in net.parameters())
    assert net.num_weights == 10
    torch.testing.assert_close(net.call(net.posterior.mean, X), model.eval()(X))


def test_frozen_weights_stay_frozen(module):
    model = module(norm=True)
    model[0].requires_grad_(False)
    net = pt.bayesian(model)
    assert net.layout.names == ["1.weight", "1.bias", "3.weight", "3.bias"]
    assert not net.model[0].weight.requires_grad


def test_empty_slots_cannot_be_used(network):
    net = network(norm=True)
    assert all(p is None for m in net.model for p in m._parameters.values())
    with pytest.raises((TypeError, RuntimeError)):
        net.model(X)


def test_slots_are_emptied_after_an_error(network):
    net = network(norm=True)
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        net(torch.zeros(2, 7))
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        net.outputs(torch.zeros(2, 7), samples=2)
    assert all(p is None for m in net.model for p in m._parameters.values())
    assert torch.isfinite(net(X)).all()


def test_keyword_arguments_reach_the_network():
    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(3, 2)

        def forward(self, x, *, factor=1.0):
            return factor * self.linear(x)

    net = pt.bayesian(Scaled(), rho=-2.0)
    weights = net.draw()
    torch.testing.assert_close(net.call(weights, X, factor=3.0), 3 * net.call(weights, X))
    assert net(X, factor=0.0).abs().max() == 0


def test_precision_changes_with_the_network(network):
    net = network(norm=True, prior=pt.Gaussian(0.3, mean=1.0)).double()
    assert net.draw().dtype == net.prior.sd.dtype == net.prior.mean.dtype == torch.float64
    assert net(X.double()).dtype == torch.float64


def test_point_draws_its_mean(network):
    net = network(norm=True, posterior="point").eval()
    assert torch.equal(net.draw(), net.posterior.mean)
    assert torch.equal(net.draw(3), net.posterior.mean.expand(3, -1))
    assert torch.equal(net(X), net(X))


def test_global_seed_governs_networks_without_one(module):
    draws = []
    for seed in (5, 5, 6):
        model = module(norm=True)
        torch.manual_seed(seed)
        draws.append(pt.bayesian(model, rho=0.0).draw())
    assert torch.equal(draws[0], draws[1])
    assert not torch.allclose(draws[0], draws[2])


def test_printing_says_what_it_is(network):
    assert "posterior=mean_field, prior=gaussian, num_weights=34" in repr(network(norm=True))


def test_printing_shows_the_biases_there_are():
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2, bias=False), nn.LSTM(2, 2))
    net = pt.bayesian(model, likelihood=pt.Categorical(), seed=0)
    lines = repr(net).splitlines()
    assert lines[1].endswith("likelihood=categorical")
    assert [line[2:] for line in lines[2:-1]] == ("(model): " + repr(model)).splitlines()
    assert net.model[0].weight is None  # empty again

    class Curious(nn.Linear):
        def forward(self, x):
            repr(whole)  # within a pass the slots are in use
            return super().forward(x)

    whole = pt.bayesian(Curious(3, 2), seed=0)
    assert whole(torch.zeros(1, 3)).shape == (1, 2)


@pytest.mark.parametrize("relative_sd", [0.0, -1.0])
def test_wrong_relative_sd(network, relative_sd):
    with pytest.raises(UsageError, match="relative_sd"):
        network(norm=True, relative_sd=relative_sd)


def test_unknown_posterior_suggests_the_nearest(network):
    with pytest.raises(UnknownNameError, match="Did you mean 'mean_field'"):
        network(norm=True, posterior="meanfield")


def test_vector_of_another_size(network):
    with pytest.raises(UsageError, match="does not fit a layout of 34"):
        network(norm=True).call(torch.zeros(33), X)


def test_what_is_known_of_weights_used_twice_is_the_networks_own():
    class Twice(nn.Linear):
        def forward(self, x):
            return super().forward(super().forward(x))

    net, other = (pt.bayesian(Twice(3, 3), rho=-2.0, seed=1) for _ in range(2))
    pt.negative_elbo(net, pt.GaussianNoise(1.0), X, X, num_data=6, estimator="local")
    assert net.several_uses == {0, 1}
    assert copy.deepcopy(net).several_uses == {0, 1}
    assert other.several_uses == set()
