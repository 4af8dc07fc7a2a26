"""The mixture's equations by hand and against torch.distributions, its limits, and how draws are shared out."""

import math

import pytest
import torch
from torch import distributions as D

from posterity.core.errors import UsageError
from posterity.objectives import kl_divergence
from posterity.objectives.estimate import frozen
from posterity.posteriors import LowRank, MeanField, Mixture, Point, Samples, Tied, rho_of
from posterity.priors import FlatGaussian

N = 3


def gaussian(mean, sd):
    mean = torch.as_tensor(mean, dtype=torch.float64)
    return MeanField(mean, rho_of(torch.full_like(mean, sd)))


@pytest.fixture
def three():
    return [gaussian([0.0, 1.0, 2.0], 0.5), gaussian([-1.0, 0.0, 4.0], 1.0), gaussian([1.0, 1.0, 1.0], 2.0)]


def reference(parts):
    means, sds = (torch.stack([getattr(q, name).detach() for q in parts]) for name in ("mean", "sd"))
    chosen = D.Categorical(torch.ones(len(parts)).double())
    return D.MixtureSameFamily(chosen, D.Independent(D.Normal(means, sds), 1))


def test_moments_and_density_are_those_of_a_mixture(three):
    q, expected = Mixture(three), reference(three)
    torch.testing.assert_close(q.mean, expected.mean)
    torch.testing.assert_close(q.sd.square(), expected.variance)
    w = torch.randn(7, N, dtype=torch.float64)
    torch.testing.assert_close(q.log_density(w), expected.log_prob(w))


def test_moments_by_hand():
    q = Mixture([gaussian([0.0], 1.0), gaussian([2.0], 3.0)])
    assert q.mean.item() == 1.0
    assert q.variance().item() == pytest.approx((1 + 9) / 2 + 1)


def test_a_draw_takes_the_component_of_its_quantile_with_the_rest_of_the_noise(three):
    q = Mixture(three)
    noise = torch.randn(4, 1 + N, dtype=torch.float64)
    noise[:, 0] = torch.tensor([-0.44, 40.0, -9.0, 0.0])  # thirds at -0.4307 and 0.4307
    expected = [three[k].sample(row[1:]) for k, row in zip((0, 2, 0, 1), noise, strict=True)]
    assert torch.equal(q.sample(noise), torch.stack(expected))
    assert torch.equal(q.sample(noise.view(2, 2, -1)), torch.stack(expected).view(2, 2, N))
    assert torch.equal(q.sample(noise[1]), expected[1])


@pytest.mark.parametrize(("total", "counts"), [(3, [1, 1, 1]), (7, [3, 2, 2]), (32, [11, 11, 10])])
def test_many_draws_use_the_components_evenly(total, counts):
    q = Mixture([gaussian([float(k)] * N, 1e-6) for k in range(3)])
    noise = torch.randn(total, q.noise_size, dtype=torch.float64)
    parts = [q.evenly(noise[:2], 0, total), q.evenly(noise[2:], 2, total)]
    found = q.sample(torch.cat(parts))[:, 0].round().long()
    assert found.bincount().tolist() == counts
    assert torch.equal(torch.cat(parts)[:, 1:], noise[:, 1:])


def test_fewer_draws_than_components_stay_random(three):
    noise = torch.randn(2, 1 + N, dtype=torch.float64)
    assert torch.equal(Mixture(three).evenly(noise, 0, 2), noise)


def test_entropy_and_kl_are_the_components_means_and_bounds(three):
    q, prior = Mixture(three), FlatGaussian(torch.full((N,), 1.5).double())
    assert q.entropy().item() == pytest.approx(sum(each.entropy().item() for each in three) / 3)
    assert q.kl(prior).item() == pytest.approx(sum(kl_divergence(each, prior).item() for each in three) / 3)
    w = q.sample(torch.randn(40_000, q.noise_size, dtype=torch.float64)).detach()
    exact = -q.log_density(w).mean().item()
    assert q.entropy().item() < exact < q.entropy().item() + math.log(3)
    kl = (q.log_density(w) - prior.log_density(w)).mean().item()
    assert q.kl(prior).item() - math.log(3) < kl < q.kl(prior).item()


def test_components_far_apart_miss_log_k():
    q = Mixture([gaussian([100.0 * k] * N, 0.1) for k in range(4)])
    w = q.sample(torch.randn(1000, q.noise_size, dtype=torch.float64)).detach()
    assert -q.log_density(w).mean().item() - q.entropy().item() == pytest.approx(math.log(4), abs=0.2)


def test_one_component_and_equal_components_are_that_one(three):
    w, prior = torch.randn(5, N, dtype=torch.float64), FlatGaussian(torch.ones(N).double())
    for q in (Mixture(three[:1]), Mixture([three[0]] * 4)):
        for found, expected in (
            (q.mean, three[0].mean),
            (q.sd, three[0].sd),
            (q.log_density(w), three[0].log_density(w)),
            (q.entropy(), three[0].entropy()),
            (q.kl(prior), three[0].kl(prior)),
            (q.sample(torch.cat([w[:, :1], w], 1)), three[0].sample(w)),
        ):
            torch.testing.assert_close(found, expected)


def test_points_are_samples():
    vectors = torch.randn(4, N)
    q, bag = Mixture([Point(v) for v in vectors]), Samples(vectors)
    torch.testing.assert_close(q.mean, bag.mean)
    torch.testing.assert_close(q.sd, bag.sd)
    assert torch.equal(q.support, vectors)
    noise = torch.randn(20, 1 + N)
    assert torch.equal(q.sample(noise), bag.sample(noise[:, :1]))
    assert torch.equal(q.log_density(vectors), bag.log_density(vectors))


def test_bags_of_one_size_have_one_support_and_others_none():
    one, two = torch.randn(2, N), torch.randn(3, N)
    assert torch.equal(Mixture([Samples(one), Samples(-one)]).support, torch.cat([one, -one]))
    assert Mixture([Samples(one), Samples(two)]).support is None  # their vectors are not equally likely
    assert Mixture([gaussian([0.0], 1.0)]).support is None


@pytest.mark.parametrize("rank", [3, 5])
def test_components_may_have_other_options(rank):
    """A member of another rank takes other noise."""
    parts = [LowRank(torch.zeros(N), torch.zeros(N), torch.ones(r, N)) for r in (3, rank)]
    q = Mixture(parts)
    assert q.noise_size == 1 + N + rank
    noise = torch.tensor([[-1.0], [1.0]]) * torch.ones(2, q.noise_size)
    expected = torch.stack([part.sample(row[1 : 1 + part.noise_size]) for part, row in zip(parts, noise, strict=True)])
    torch.testing.assert_close(q.sample(noise), expected)
    again = Mixture.empty(N, kind="mixture", **q.options())
    again.load_state_dict(q.state_dict())
    assert [each.rank for each in again.parts] == [3, rank]


def test_frozen_detaches_the_components_too(three):
    q = Mixture(three)
    held = frozen(q)
    assert not held.log_density(torch.zeros(1, N).double()).requires_grad
    assert q.log_density(torch.zeros(1, N).double()).requires_grad


def test_a_weight_is_found_through_its_component():
    q = Mixture([Tied(torch.zeros(4), torch.zeros(2), [1, 3]) for _ in range(2)])
    assert q.weight_index(q.parts[1].rho, 1) == 1
    assert q.weight_index(q.parts[1].mean, 2) == 2


def test_refusals(three):
    for parts, found in (
        ([], "none"),
        ([three[0], Point(torch.zeros(N))], "mean_field of 3 weights, point of 3 weights"),
        ([Point(torch.zeros(2)), Point(torch.zeros(3))], "point of 2 weights, point of 3 weights"),
    ):
        with pytest.raises(UsageError, match=f"of one family over one vector, not {found}"):
            Mixture(parts)
    with pytest.raises(UsageError, match="mixture of mixtures"):
        Mixture([Mixture(three)])
