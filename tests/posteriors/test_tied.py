import copy
import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import posterity as pt
from posterity.averaging import COVARIANCES, HWA, SWA
from posterity.core.errors import UnknownNameError, UsageError
from posterity.core.randomness import NoiseSource
from posterity.estimators import ESTIMATORS
from posterity.objectives import GRADIENTS, kl_by_weight, kl_divergence, learn_scale
from posterity.posteriors import MeanField, Tied, rho_of
from posterity.training.diagnostics import non_finite

X = torch.randn(8, 3, generator=torch.Generator().manual_seed(0))
Y = (X[:, 0] > 0).long()
TIED, BY_LAYER = {"posterior": "tied"}, {"posterior": "tied", "share": "layer"}
DOUBLE = {"dtype": torch.float64}
PRIORS = [
    pt.Gaussian("kaiming"),
    pt.Gaussian(0.3, mean="pretrained"),
    pt.Laplace(0.3),
    pt.StudentT(),
    pt.ScaleMixture(),
    pt.Parts({"0.*": pt.Laplace(0.1), "*": pt.Gaussian(0.3)}),
    pt.FromPenalty("l1"),
    pt.FromPenalty("group_lasso_rows"),
]


def loosened(net):
    """The same network with a mean-field posterior."""
    other = copy.deepcopy(net)
    other.posterior = MeanField(net.posterior.mean, rho_of(net.posterior.sd))
    return other


def gradients(net, **options):
    net.noise_source = NoiseSource(3)
    net.zero_grad()
    loss = pt.negative_elbo(net, pt.Categorical(), X.double(), Y, num_data=20, **options)
    kl = loss.kl.detach()
    loss.backward()
    return kl, net.posterior.mean.grad, net.posterior.rho.grad


def test_by_hand():
    q = Tied(torch.tensor([1.0, -2.0, 0.5]), rho_of(torch.tensor([2.0, 0.5])), [1, 2])
    torch.testing.assert_close(q.sd, torch.tensor([2.0, 0.5, 0.5]))
    torch.testing.assert_close(q.sample(torch.tensor([1.0, -1.0, 2.0])), torch.tensor([3.0, -2.5, 1.5]))
    expected = torch.distributions.Normal(q.mean, q.sd)
    w = torch.tensor([[0.0, 1.0, 2.0]])
    torch.testing.assert_close(q.log_density(w), expected.log_prob(w).sum(-1))
    torch.testing.assert_close(q.entropy(), expected.entropy().sum())


def test_one_sd_for_all_or_for_each_layer(network):
    assert network(**TIED).posterior.rho.shape == (1,)
    q = network(**BY_LAYER, **DOUBLE).posterior
    assert q.sizes == [16, 10]
    with torch.no_grad():
        q.rho.copy_(torch.tensor([-1.0, 2.0]))
    torch.testing.assert_close(q.sd[[0, 15, 16, 25]], F.softplus(torch.tensor([-1.0, -1.0, 2.0, 2.0])).double())
    assert network(**TIED, **DOUBLE).posterior.rho.dtype == torch.float64
    assert list(network(**TIED, **DOUBLE).posterior.groups()) == ["mean", "sd"]


def test_starts_at_the_root_mean_square(network):
    q = network(**BY_LAYER, **DOUBLE, prior=pt.Gaussian("kaiming"), relative_sd=0.1).posterior
    sd = torch.tensor([math.sqrt(2 / 3), math.sqrt(2 / 4)]).double()  # the same for a layer's weight and bias
    torch.testing.assert_close(F.softplus(q.rho), 0.1 * sd)
    both = ((16 * sd[0] ** 2 + 10 * sd[1] ** 2) / 26).sqrt()
    tied = network(**TIED, **DOUBLE, prior=pt.Gaussian("kaiming"), relative_sd=0.1).posterior
    torch.testing.assert_close(F.softplus(tied.rho[0]), 0.1 * both)


@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("share", ["all", "layer"])
def test_kl_is_that_of_the_mean_field_with_these_sds(network, prior, share):
    net = network(posterior="tied", share=share, prior=prior, **DOUBLE)
    field = loosened(net).posterior
    torch.testing.assert_close(kl_divergence(net.posterior, net.prior), kl_divergence(field, net.prior))
    torch.testing.assert_close(kl_by_weight(net.posterior, net.prior), kl_by_weight(field, net.prior))


@pytest.mark.parametrize("prior", [PRIORS[0], PRIORS[2]])
@pytest.mark.parametrize("share", ["all", "layer"])
@pytest.mark.parametrize(
    ("estimator", "gradient"), [(e, g) for e in ESTIMATORS for g in GRADIENTS if e == "sample" or g != "score"]
)
def test_gradient_of_rho_is_the_sum_of_mean_fields(network, prior, share, estimator, gradient):
    net = network(posterior="tied", share=share, prior=prior, **DOUBLE)
    options = {"estimator": estimator, "gradient": gradient, "samples": 2}
    kl, mean, rho = gradients(net, **options)
    field_kl, field_mean, field_rho = gradients(loosened(net), **options)
    torch.testing.assert_close(kl, field_kl)
    torch.testing.assert_close(mean, field_mean)
    torch.testing.assert_close(rho, torch.stack([g.sum() for g in field_rho.split(net.posterior.sizes)]))


def test_as_many_blocks_as_weights_are_mean_field(network):
    net = network(**TIED, **DOUBLE)
    field = loosened(net)
    with torch.no_grad():
        field.posterior.rho.add_(torch.linspace(-1, 1, 26))
    net.posterior = Tied(field.posterior.mean, field.posterior.rho, [1] * 26)
    for found, expected in zip(gradients(net), gradients(field), strict=True):
        torch.testing.assert_close(found, expected)


def test_the_limit_of_small_sds_is_a_point(network):
    net = network(**TIED, rho=-60.0)
    point = pt.bayesian(nn.Linear(3, 2), posterior="point")
    point.posterior = pt.Point(net.posterior.mean)
    torch.testing.assert_close(net.draw(), point.posterior.mean)


@pytest.mark.parametrize("share", ["all", "layer"])
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_is_trained_saved_and_loaded(network, module, share, estimator, tmp_path):
    net = network(posterior="tied", share=share, likelihood=pt.Categorical())
    options = {"estimator": estimator, "learn_prior": True, "temperature": 0.1, "lr": 0.05}
    history = pt.fit(net, (X, Y), epochs=8, batch_size=4, **options).history
    assert history[-1]["nll"] < history[0]["nll"]
    pt.save(net, tmp_path / "net.safetensors")
    loaded = pt.load(tmp_path / "net.safetensors", module())
    assert loaded.posterior.sizes == net.posterior.sizes
    assert torch.equal(loaded.posterior.sd, net.posterior.sd)
    assert torch.equal(loaded.predict(X, 3, seed=0).samples, net.predict(X, 3, seed=0).samples)


@pytest.mark.parametrize("covariance", COVARIANCES)
def test_hwa_averages_it_and_restarts(network, covariance):
    net, hwa = network(**BY_LAYER, **DOUBLE), HWA(covariance=covariance)
    g = torch.Generator().manual_seed(1)
    for _ in range(4):
        with torch.no_grad():
            for p in net.posterior.parameters():
                p += 0.1 * torch.randn(p.shape, generator=g, dtype=torch.float64)
        hwa.update(net)
    average = hwa.posterior(net.posterior)
    hwa.restart(net)
    assert isinstance(net.posterior, Tied)
    torch.testing.assert_close(net.posterior.mean.detach(), hwa.means.mean)
    for found, wanted in zip(*(q.variance().split([16, 10]) for q in (net.posterior, average)), strict=True):
        torch.testing.assert_close(found.mean(), wanted.mean())


def test_swa_keeps_the_last_sds(network):
    net, swa = network(**BY_LAYER, **DOUBLE), SWA()
    first = net.posterior.mean.detach().clone()
    swa.update(net)
    with torch.no_grad():
        net.posterior.mean += 1
        net.posterior.rho += 1
    swa.update(net)
    averaged = swa.network(net).posterior
    torch.testing.assert_close(averaged.mean.detach(), first + 0.5)
    assert torch.equal(averaged.sd, net.posterior.sd)


def test_a_training_with_hwa_has_an_average(network):
    results = [
        pt.fit(network(**BY_LAYER), (X, Y), epochs=4, batch_size=4, average="hwa", average_restart=True)
        for _ in range(2)
    ]
    assert isinstance(results[0].averaged.posterior, MeanField)
    assert torch.equal(results[0].averaged.posterior.mean, results[1].averaged.posterior.mean)


def test_learns_the_priors_scale(network):
    net = network(**TIED, prior=pt.Gaussian(2.0), **DOUBLE)
    learn_scale(net)
    weights = slice(0, 12)
    square = (net.posterior.mean[weights].square() + net.posterior.variance()[weights]).mean()
    torch.testing.assert_close(net.prior.sd[0], square.sqrt().detach())


def test_what_is_not_finite_is_reported_where_it_is(network):
    """Place 1 of rho is the second layer's, not the second weight's."""
    net = network(**BY_LAYER, **DOUBLE)
    loss = pt.negative_elbo(net, pt.Categorical(), X.double(), Y, num_data=8)
    net.posterior.rho.grad = torch.tensor([0.0, math.inf]).double()
    assert "gradient of 2.weight" in str(non_finite(net, loss, 1))
    assert net.layout.weight_at(net.posterior.weight_index(net.posterior.mean, 1)) == "0.weight"


def test_what_it_refuses(network):
    with pytest.raises(UnknownNameError, match=r"'layers'.*Did you mean 'layer'"):
        network(posterior="tied", share="layers")
    for shapes in ((3, 2, None), (3, 2, [1, 1]), (3, 1, [2])):
        mean, rho, sizes = shapes
        with pytest.raises(UsageError, match="sizes"):
            Tied(torch.zeros(mean), torch.zeros(rho), sizes)
