import math

import pytest
import torch
from torch.distributions import LowRankMultivariateNormal, MultivariateNormal, Normal
from torch.distributions import kl_divergence as reference
from torch.nn import functional as F

import posterity as pt
from posterity.core.errors import NonFiniteError, UsageError
from posterity.objectives import kl_by_weight, kl_divergence
from posterity.posteriors import LowRank, MeanField, rho_of
from posterity.priors import FlatGaussian

N, R = 12, 4


def numbers(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def low_rank(dtype=torch.float64, n=N, rank=R, size=1.0):
    values = numbers(n), numbers(n, seed=1) - 1, size * numbers(rank, n, seed=2)
    return LowRank(*(v.to(dtype) for v in values))


def prior_of(dtype=torch.float64, n=N, centred=True):
    return FlatGaussian(numbers(n, seed=3).exp().to(dtype), numbers(n, seed=4).to(dtype) if centred else None)


def dense(q):
    """The definition, with an N x N matrix."""
    mean, rho, deviations = (p.double() for p in (q.mean, q.rho, q.deviations))
    sd = torch.diag(F.softplus(rho))
    covariance = sd @ (torch.eye(len(mean)).double() + deviations.T @ deviations / (len(deviations) - 1)) @ sd
    return MultivariateNormal(mean, covariance)


def dense_prior(prior):
    return MultivariateNormal(prior.mean.double().expand(len(prior.sd)), torch.diag(prior.sd.double() ** 2))


def test_sample_by_hand():
    deviations = torch.tensor([[1.0, 2.0], [0.0, 4.0], [3.0, 0.0]])
    q = LowRank(torch.tensor([1.0, -1.0]), rho_of(torch.tensor([0.5, 2.0])), deviations)
    noise = torch.tensor([2.0, -1.0, 1.0, -1.0, 0.5])  # own noise of two weights, then three shared numbers
    shared = torch.tensor([1 + 1.5, 2.0 - 4.0]) / math.sqrt(2)
    expected = torch.tensor([1.0, -1.0]) + torch.tensor([0.5, 2.0]) * (torch.tensor([2.0, -1.0]) + shared)
    torch.testing.assert_close(q.sample(noise), expected)
    assert q.noise_size == 5
    assert q.rank == 3
    torch.testing.assert_close(q.variance(), torch.tensor([0.25 * 6, 4 * 11.0]))


def test_density_entropy_and_variance_agree_with_torch():
    q = low_rank()
    weights = numbers(7, N, seed=5)
    for theirs in (
        dense(q),
        LowRankMultivariateNormal(q.mean, (q.own_sd * q.deviations).T / math.sqrt(R - 1), F.softplus(q.rho) ** 2),
    ):
        torch.testing.assert_close(q.log_density(weights), theirs.log_prob(weights))
        torch.testing.assert_close(q.log_density(weights[0]), theirs.log_prob(weights[0]))
        torch.testing.assert_close(q.entropy(), theirs.entropy())
        torch.testing.assert_close(q.variance(), theirs.variance)


def test_samples_have_the_covariance():
    q = low_rank(n=5)
    count = 100_000
    weights = q.sample(numbers(count, q.noise_size, seed=6)).detach()
    expected = dense(q).covariance_matrix.detach()
    variance = expected.diagonal()
    error = ((variance[:, None] * variance + expected**2) / count).sqrt()  # of a Gaussian's sample covariance
    assert ((weights.T.cov() - expected).abs() < 4.5 * error).all()
    assert (expected - torch.diag(variance)).abs().max() > 20 * error.max()  # else a diagonal one would pass, too


@pytest.mark.parametrize("centred", [False, True])
@pytest.mark.parametrize(("dtype", "rtol"), [(torch.float64, 1e-9), (torch.float32, 1e-5)])
def test_kl_agrees_with_the_dense_one(dtype, rtol, centred):
    q, prior = low_rank(dtype), prior_of(dtype, centred=centred)
    expected = reference(dense(q), dense_prior(prior))
    assert kl_divergence(q, prior).dtype == dtype
    torch.testing.assert_close(kl_divergence(q, prior).double(), expected, rtol=rtol, atol=0)
    torch.testing.assert_close(kl_by_weight(q, prior).sum().double(), expected, rtol=rtol, atol=0)


def test_gradients_agree_with_the_dense_ones():
    q, prior, weights = low_rank(), prior_of(), numbers(3, N, seed=5)
    parameters = [q.mean, q.rho, q.deviations]
    ours = kl_divergence(q, prior), q.log_density(weights).sum(), q.entropy()
    theirs = reference(dense(q), dense_prior(prior)), dense(q).log_prob(weights).sum(), dense(q).entropy()
    for a, b in zip(ours, theirs, strict=True):
        for x, y in zip(
            torch.autograd.grad(a, parameters, allow_unused=True),
            torch.autograd.grad(b, parameters, allow_unused=True),
            strict=True,
        ):
            torch.testing.assert_close(torch.zeros(()) if x is None else x, torch.zeros(()) if y is None else y)


def test_kl_is_zero_for_the_prior_itself():
    sd = numbers(N).exp()
    q = LowRank(torch.zeros(N).double(), rho_of(sd), torch.zeros(R, N).double())
    assert kl_divergence(q, FlatGaussian(sd)).abs() < 1e-12
    assert kl_by_weight(q, FlatGaussian(sd)).abs().max() < 1e-12


@pytest.mark.parametrize("size", [0.0, 1e-9])
def test_no_deviations_give_mean_field(size):
    q, prior, weights = low_rank(size=size), prior_of(), numbers(3, N, seed=5)
    field = MeanField(q.mean, q.rho)
    torch.testing.assert_close(q.log_density(weights), field.log_density(weights))
    torch.testing.assert_close(q.entropy(), field.entropy())
    torch.testing.assert_close(q.sd, field.sd)
    torch.testing.assert_close(kl_divergence(q, prior), kl_divergence(field, prior))
    torch.testing.assert_close(kl_by_weight(q, prior), kl_by_weight(field, prior))
    noise = numbers(2, q.noise_size, seed=6)
    torch.testing.assert_close(q.sample(noise), field.sample(noise[:, :N]))


def test_a_weights_share_is_that_of_its_marginal_plus_some_of_the_correlation():
    q, prior = low_rank(), prior_of()
    shares = kl_by_weight(q, prior)
    marginals = reference(Normal(q.mean, q.sd), Normal(prior.mean, prior.sd))
    assert (shares > marginals).all()  # which are not negative
    correlation = Normal(q.mean, q.sd).entropy().sum() - dense(q).entropy()
    torch.testing.assert_close((shares - marginals).sum(), correlation)


def test_shares_agree_with_the_integral():
    """By quadrature over t of a_i^T (I + t A A^T)^-1 a_i / 2."""
    q = low_rank()
    scaled = (q.deviations / math.sqrt(R - 1)).detach()
    points, total = (torch.arange(4000).double() + 0.5) / 4000, torch.zeros(N).double()
    for t in points:
        inverse = torch.linalg.inv(torch.eye(R).double() + t * scaled @ scaled.T)
        total += (scaled * (inverse @ scaled)).sum(0) / 2 / len(points)
    torch.testing.assert_close(q.half_log_det_by_weight(), total, rtol=1e-4, atol=1e-6)


def test_shares_of_independent_weights_are_their_marginals():
    """Each deviation moves one weight only."""
    q = LowRank(numbers(R), numbers(R, seed=1), torch.diag(numbers(R, seed=2)))
    prior = prior_of(n=R)
    torch.testing.assert_close(kl_by_weight(q, prior), reference(Normal(q.mean, q.sd), Normal(prior.mean, prior.sd)))


def test_shares_do_not_depend_on_the_order():
    q, order = low_rank(), torch.randperm(N, generator=torch.Generator().manual_seed(0))
    other = LowRank(q.mean[order], q.rho[order], q.deviations[:, order])
    torch.testing.assert_close(other.half_log_det_by_weight(), q.half_log_det_by_weight()[order])


def test_deviations_far_larger_than_the_sd_keep_single_precision_exact():
    """In single precision I + A A^T would not even be positive definite here."""
    mean, rho, deviations = torch.zeros(2000), torch.full((2000,), -9.0), 1e4 * numbers(R, 2000).float()
    deviations -= deviations.mean(0)  # as an average's are: they sum to zero
    q = LowRank(mean, rho, deviations)
    expected = LowRank(mean.double(), rho.double(), deviations.double())
    prior, double = FlatGaussian(torch.ones(2000)), FlatGaussian(torch.ones(2000).double())
    torch.testing.assert_close(kl_divergence(q, prior).double(), kl_divergence(expected, double), rtol=1e-5, atol=0)
    torch.testing.assert_close(q.log_density(mean).double(), expected.log_density(mean.double()), rtol=1e-5, atol=0)


def test_halved_is_equation_5():
    variance, deviations = numbers(N).exp(), numbers(R, N, seed=2)
    q = LowRank.halved(numbers(N, seed=1), variance, deviations)
    expected = torch.diag(variance) / 2 + deviations.T @ deviations / (2 * (R - 1))
    torch.testing.assert_close(dense(q).covariance_matrix, expected)
    torch.testing.assert_close(q.variance(), expected.diagonal())


def test_halved_of_a_weight_that_never_moved():
    q = LowRank.halved(torch.zeros(2), torch.tensor([0.0, 4.0]), torch.tensor([[0.0, 1.0], [0.0, -1.0]]))
    assert torch.equal(q.deviations[:, 0], torch.zeros(2))
    torch.testing.assert_close(q.variance(), torch.tensor([0.0, 2 + 1.0]))


def test_overflow_gives_nan_not_an_exception():
    q = low_rank()
    with torch.no_grad():
        q.deviations[1, 3] = torch.inf
    assert torch.isnan(kl_divergence(q, prior_of()))
    assert torch.isnan(kl_by_weight(q, prior_of())).all()


@pytest.mark.parametrize("rank", [0, 1])
def test_rank_one_is_refused(rank):
    with pytest.raises(UsageError, match=f"at least 2 .* not {rank}"):
        low_rank(rank=rank)
    with pytest.raises(UsageError, match="at least 2"):
        pt.bayesian(torch.nn.Linear(2, 1), posterior="low_rank", rank=rank)


def test_mismatched_shapes_are_refused():
    with pytest.raises(UsageError, match=r"not \(3,\), \(3,\), \(2, 4\)"):
        LowRank(torch.zeros(3), torch.zeros(3), torch.zeros(2, 4))
    with pytest.raises(UsageError, match="shapes"):
        LowRank(torch.zeros(3), torch.zeros(2), torch.zeros(2, 3))


def test_the_front_door_builds_it_from_the_seed():
    model = torch.nn.Linear(50, 20)
    a, b, c = (pt.bayesian(model, posterior="low_rank", rank=3, rho=-2.0, seed=s).posterior for s in (0, 0, 1))
    assert a.rank == 3
    assert torch.equal(a.deviations, b.deviations)
    assert not torch.equal(a.deviations, c.deviations)
    assert a.deviations.detach().std() == pytest.approx(0.1, rel=0.05)
    assert pt.bayesian(model, posterior="low_rank").posterior.rank == 8
    relative = pt.bayesian(model, prior=2.0, posterior="low_rank", relative_sd=0.25, seed=0).posterior
    torch.testing.assert_close(relative.own_sd, torch.full((1020,), 0.5))


def test_groups_train_the_deviations_with_the_sds():
    q = low_rank()
    groups = q.groups()
    assert list(groups) == ["mean", "sd"]
    assert groups["sd"][0] is q.rho
    assert groups["sd"][1] is q.deviations


def test_training_finds_a_correlated_posterior():
    """Two weights that the data see only in their sum are known in it and not in their difference."""
    torch.manual_seed(0)
    x = torch.ones(10, 2)
    y = x[:, :1] + torch.randn(10, 1)
    net = pt.bayesian(torch.nn.Linear(2, 1, bias=False), prior=1.0, posterior="low_rank", rank=2, rho=-1.0, seed=0)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.1)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 150)
    for _ in range(150):
        optimizer.zero_grad()
        pt.negative_elbo(net, pt.GaussianNoise(1.0), x, y, num_data=10, samples=32).backward()
        optimizer.step()
        schedule.step()
    covariance = dense(net.posterior).covariance_matrix.detach()
    exact = torch.linalg.inv(torch.eye(2) + x.T @ x)  # correlation -10 / 11
    torch.testing.assert_close(covariance.float(), exact, rtol=0.15, atol=0.0)


@pytest.mark.parametrize("lr", [1e4, 1e25])
def test_a_training_that_diverges_says_so(lr):
    torch.manual_seed(0)
    net = pt.bayesian(torch.nn.Linear(3, 1), posterior="low_rank", rank=3, rho=-1.0, seed=0)
    data = torch.randn(20, 3), torch.randn(20, 1)
    with pytest.raises(NonFiniteError, match="Try a lower lr"):
        pt.fit(net, data, epochs=50, batch_size=5, lr=lr, optimizer="sgd", temperature=0.05)
