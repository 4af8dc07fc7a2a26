import pytest
import torch
from torch import nn
from torch.distributions import Normal
from torch.distributions import kl_divergence as reference

import posterity as pt
from posterity.core.errors import UsageError
from posterity.core.randomness import NoiseSource
from posterity.objectives import PAIRS, kl_by_weight, kl_divergence
from posterity.objectives.pairs import GENERIC, pair_of
from posterity.posteriors import IndependentGaussian, MeanField, Point, Samples, Tied, rho_of
from posterity.priors import FlatGaussian, FlatLaplace, Prior


def pair(dtype=torch.float32, centred=True, n=500):
    g = torch.Generator().manual_seed(0)
    draw = lambda: torch.randn(n, generator=g, dtype=torch.float64)  # noqa: E731
    q = MeanField(draw().to(dtype), (3 * draw() - 4).to(dtype))
    return q, FlatGaussian((0.5 * draw()).exp().to(dtype), draw().to(dtype) if centred else None)


def normals(q, prior):
    double = lambda t: t.detach().double()  # noqa: E731
    return Normal(double(q.mean), double(q.sd)), Normal(double(prior.mean).expand(len(q.mean)), double(prior.sd))


@pytest.mark.parametrize("centred", [False, True])
def test_agrees_with_torch(centred):
    q, prior = pair(centred=centred)
    by_weight = reference(*normals(q, prior))
    torch.testing.assert_close(kl_divergence(q, prior).double(), by_weight.sum(), rtol=1e-5, atol=0)
    torch.testing.assert_close(kl_by_weight(q, prior).double(), by_weight, rtol=1e-5, atol=1e-5)


def test_by_hand():
    q = MeanField(torch.tensor([3.0]), rho_of(torch.tensor([2.0])))
    prior = FlatGaussian(torch.tensor([4.0]), torch.tensor([1.0]))
    expected = 0.5 * (0.25 + 0.25 - 1) + torch.tensor(2.0).log()
    torch.testing.assert_close(kl_divergence(q, prior), expected)


def test_is_a_sum_not_a_mean():
    q, prior = pair(torch.float64)
    twice = MeanField(torch.cat([q.mean, q.mean]), torch.cat([q.rho, q.rho]))
    doubled = FlatGaussian(torch.cat([prior.sd, prior.sd]), torch.cat([prior.mean, prior.mean]))
    torch.testing.assert_close(kl_divergence(twice, doubled), 2 * kl_divergence(q, prior))


@pytest.mark.parametrize("sd", [1e-4, 0.1, 1.0, 30.0])
def test_zero_for_the_prior_itself(sd):
    mean, sds = torch.linspace(-1, 1, 100), torch.full((100,), sd)
    kl = kl_by_weight(MeanField(mean, rho_of(sds)), FlatGaussian(sds, mean))
    assert kl.abs().max() < 1e-6


def test_agrees_with_monte_carlo():
    q, prior = pair(torch.float64, n=20)
    noise = torch.randn(20_000, 20, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    weights = q.sample(noise)
    terms = q.log_density(weights) - prior.log_density(weights)
    error = (terms.mean() - kl_divergence(q, prior)).abs()
    assert error < 4 * terms.std() / len(terms) ** 0.5


def test_point_is_the_log_prior():
    q, prior = pair(torch.float64)
    point = Point(q.mean)
    expected = -Normal(prior.mean, prior.sd).log_prob(q.mean)
    torch.testing.assert_close(kl_by_weight(point, prior), expected)
    torch.testing.assert_close(kl_divergence(point, prior), expected.sum())


def test_point_and_narrow_mean_field_have_the_same_gradient():
    q, prior = pair(torch.float64)
    narrow = MeanField(q.mean, torch.full_like(q.mean, -30))
    point = Point(q.mean)
    kl_divergence(narrow, prior).backward()
    kl_divergence(point, prior).backward()
    torch.testing.assert_close(narrow.mean.grad, point.mean.grad)


def test_layers_sum_to_the_whole():
    torch.manual_seed(0)
    net = pt.bayesian(nn.Sequential(nn.Conv2d(2, 3, 2), nn.Flatten(), nn.Linear(3, 2)), rho=-2.0)
    loss = pt.negative_elbo(net, pt.Categorical(), torch.randn(4, 2, 2, 2), torch.tensor([0, 1, 0, 1]), num_data=9)
    assert list(loss.kl_by_layer) == ["0", "2"]
    torch.testing.assert_close(sum(loss.kl_by_layer.values()), loss.kl.detach())
    first = MeanField(net.posterior.mean[:27], net.posterior.rho[:27])
    torch.testing.assert_close(loss.kl_by_layer["0"], kl_divergence(first, FlatGaussian(net.prior.sd[:27])).detach())


def test_a_pair_of_subclasses_has_the_way_of_the_nearest_classes():
    class OtherField(MeanField):
        pass

    class OtherGaussian(FlatGaussian):
        pass

    q, prior = pair()
    kinds = [(q, prior), (OtherField(q.mean, q.rho), prior), (q, OtherGaussian(prior.sd, prior.mean))]
    assert {pair_of(*each) for each in kinds} == {PAIRS[MeanField, FlatGaussian]}
    assert pair_of(Tied(q.mean, torch.zeros(1)), prior) is PAIRS[IndependentGaussian, FlatGaussian]
    assert pair_of(Point(q.mean), prior) is PAIRS[Point, Prior]
    assert pair_of(Point(q.mean), FlatLaplace(prior.sd)) is PAIRS[Point, Prior]
    assert pair_of(Samples(q.mean.detach()[None]), prior) is GENERIC
    assert pair_of(q, FlatLaplace(prior.sd)) is GENERIC


@pytest.mark.parametrize("kind", ["mean_field", "tied", "low_rank", "point"])
def test_special_ways_agree_with_the_generic_one(kind):
    """Value, shares and gradients of the KL, and of a loss of drawn weights."""
    torch.manual_seed(0)
    net = pt.bayesian(nn.Linear(3, 2).double(), prior=pt.Gaussian(0.5, mean=0.2), posterior=kind, rho=-1.0, seed=0)
    special, found = pair_of(net.posterior, net.prior), []
    for way in (special, GENERIC):
        net.noise_source = NoiseSource(1)
        net.zero_grad()
        views, handle = way.draw(net, 2)
        (sum(view.square().sum() for view in views.values()) + 0.7 * handle).backward()
        values = [way.kl(net.posterior, net.prior), way.kl_by_weight(net.posterior, net.prior)]
        found.append([v.detach() for v in values] + [p.grad for p in net.posterior.parameters()])
    assert special is not GENERIC
    torch.testing.assert_close(*found)


def test_where_there_is_no_kl():
    with pytest.raises(TypeError, match=r"net\.posterior, not from a Linear"):
        kl_divergence(nn.Linear(1, 1), pair()[1])
    net = pt.bayesian(nn.Linear(3, 2), prior=pt.FromPenalty("group_lasso_rows"), posterior="low_rank", rank=2)
    with pytest.raises(UsageError, match="no closed-form KL from a low_rank posterior to a penalty prior"):
        kl_divergence(net.posterior, net.prior)


@pytest.mark.parametrize("kind", ["mean_field", "low_rank"])
def test_a_mistake_in_a_prior_is_not_taken_for_a_missing_kl(kind):
    """It once was: a TypeError in the prior's code meant "no KL", and another gradient was taken in silence."""

    class Mistaken(FlatLaplace):
        def expected_log_density(self, mean, sd):
            return torch.zeros(3) + "oops"

    net = pt.bayesian(nn.Linear(3, 2), prior=pt.Laplace(0.5), posterior=kind)
    net.prior = Mistaken(net.prior.sd)
    with pytest.raises(TypeError, match="str"):
        pt.negative_elbo(net, pt.Categorical(), torch.ones(2, 3), torch.tensor([0, 1]), num_data=2)
