import pytest
import torch
from torch import nn
from torch.distributions import MultivariateNormal
from torch.distributions import kl_divergence as reference

import posterity as pt
from posterity.core.errors import NonFiniteError, UsageError
from posterity.objectives import kl_by_weight, kl_divergence
from posterity.posteriors import Full, MeanField, rho_of
from posterity.posteriors import full as source
from posterity.priors import FlatGaussian

N = 6


def numbers(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def full(dtype=torch.float64, n=N, size=1.0):
    values = numbers(n), numbers(n, seed=1) - 1, size * numbers(n * (n - 1) // 2, seed=2)
    return Full(*(v.to(dtype) for v in values))


def dense(q):
    """The definition, from the factor L = diag(s) (I + T)."""
    together = torch.zeros(q.num_weights, q.num_weights, dtype=torch.float64)
    row, column = torch.tril_indices(q.num_weights, q.num_weights, -1)
    together[row, column] = q.lower.double()
    factor = q.own_sd.double().unsqueeze(1) * (torch.eye(q.num_weights).double() + together)
    return MultivariateNormal(q.mean.double(), scale_tril=factor)


def test_by_hand():
    """Three weights: T = [[0, 0, 0], [1, 0, 0], [2, 3, 0]], s = (1, 2, 0.5)."""
    q = Full(torch.tensor([1.0, -1.0, 0.0]), rho_of(torch.tensor([1.0, 2.0, 0.5])), torch.tensor([1.0, 2.0, 3.0]))
    noise = torch.tensor([2.0, -1.0, 1.0])
    torch.testing.assert_close(q.sample(noise), torch.tensor([1 + 2.0, -1 + 2 * (2.0 - 1), 0.5 * (4.0 - 3 + 1)]))
    torch.testing.assert_close(q.variance(), torch.tensor([1.0, 4 * 2.0, 0.25 * 14]))
    torch.testing.assert_close(q.covariance()[1], torch.tensor([2.0, 8.0, 2 * 0.5 * (2.0 + 3)]))
    assert q.noise_size == 3


def test_density_entropy_and_moments_agree_with_torch():
    q, weights = full(), numbers(7, N, seed=5)
    torch.testing.assert_close(q.log_density(weights), dense(q).log_prob(weights))
    torch.testing.assert_close(q.entropy(), dense(q).entropy())
    torch.testing.assert_close(q.variance(), dense(q).variance)
    torch.testing.assert_close(q.covariance(), dense(q).covariance_matrix)
    noise = numbers(7, N, seed=6)
    torch.testing.assert_close(q.sample(noise), q.mean + noise @ dense(q).scale_tril.T)


@pytest.mark.parametrize("centred", [False, True])
def test_the_kl_and_its_gradient_agree_with_torch(centred):
    q = full()
    prior = FlatGaussian(numbers(N, seed=3).exp(), numbers(N, seed=4) if centred else None)
    theirs = reference(dense(q), MultivariateNormal(prior.mean.expand(N), torch.diag(prior.sd**2)))
    ours = kl_divergence(q, prior)
    torch.testing.assert_close(ours, theirs)
    parameters = list(q.parameters())
    for mine, wanted in zip(
        torch.autograd.grad(ours, parameters), torch.autograd.grad(theirs, parameters), strict=True
    ):
        torch.testing.assert_close(mine, wanted)


def test_a_share_of_the_kl_is_the_marginals_and_what_those_before_tell():
    q, prior = full(), FlatGaussian(numbers(N, seed=3).exp())
    marginal = kl_by_weight(MeanField(q.mean, rho_of(q.sd)), prior)
    told = kl_by_weight(q, prior) - marginal
    assert told[0].item() == pytest.approx(0, abs=1e-12)
    assert (told >= -1e-12).all()
    torch.testing.assert_close(told, q.sd.log() - q.own_sd.log())


def test_without_correlations_it_is_mean_field():
    q = full(size=0.0)
    simple = MeanField(q.mean, q.rho)
    weights, prior = numbers(4, N, seed=5), FlatGaussian(numbers(N, seed=3).exp())
    torch.testing.assert_close(q.sample(weights), simple.sample(weights))
    torch.testing.assert_close(q.log_density(weights), simple.log_density(weights))
    torch.testing.assert_close(q.entropy(), simple.entropy())
    torch.testing.assert_close(kl_by_weight(q, prior), kl_by_weight(simple, prior))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_of_a_precision(dtype):
    root = numbers(N, N, seed=7)
    precision = root @ root.T + 0.1 * torch.eye(N).double()
    q = Full.of_precision(numbers(N).to(dtype), precision)
    assert q.mean.dtype == q.rho.dtype == q.lower.dtype == dtype
    exact = torch.linalg.inv(precision)
    torch.testing.assert_close(q.covariance().double(), exact, rtol=1e-4 if dtype == torch.float32 else 1e-9, atol=1e-6)
    with pytest.raises(UsageError, match="must be positive definite"):
        Full.of_precision(numbers(2), torch.tensor([[1.0, 2.0], [2.0, 1.0]]))


def test_training_reaches_the_exact_posterior_of_a_linear_model():
    torch.manual_seed(0)
    x = torch.randn(20, 2) @ torch.tensor([[1.0, 0.9], [0.0, 0.3]])
    y = x @ torch.tensor([[1.0], [-1.0]]) + torch.randn(20, 1)
    net = pt.bayesian(nn.Linear(2, 1, bias=False), prior=1.0, posterior="full", rho=-1.0, seed=0)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.1)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 300)
    for _ in range(300):
        optimizer.zero_grad()
        pt.negative_elbo(net, pt.GaussianNoise(1.0), x, y, num_data=20, samples=32).backward()
        optimizer.step()
        schedule.step()
    precision = x.T @ x + torch.eye(2)
    exact = torch.linalg.inv(precision)
    torch.testing.assert_close(net.posterior.covariance().detach(), exact, rtol=0.1, atol=0)
    torch.testing.assert_close(net.posterior.mean.detach(), (exact @ x.T @ y).squeeze(1), rtol=0.1, atol=0.02)


def test_a_run_is_resumed_bit_for_bit(make_net, small, tmp_path, same):
    settings = {"batch_size": 20, "lr": 0.01, "seed": 3}
    options = {"posterior": "full", "select": "3.*"}
    whole = make_net(**options)
    pt.fit(whole, small, epochs=4, **settings)
    kept = {"out": tmp_path / "run", "checkpoint_seconds": 0.0}
    with pytest.raises(KeyboardInterrupt):
        pt.fit(make_net(**options), small, epochs=4, callbacks=[Stop()], **kept, **settings)
    second = make_net(**options)
    assert len(pt.fit(second, small, epochs=4, resume=True, **kept, **settings).history) == 4
    assert same(second.state_dict(), whole.state_dict())


class Stop(pt.Callback):
    """Ends the training in its second epoch."""

    kept = False

    def on_epoch(self, training, record):
        if record["epoch"] == 2:
            raise KeyboardInterrupt


def test_sizes_are_checked_before_memory_is_asked_for(monkeypatch):
    for build in (
        lambda: pt.bayesian(nn.Linear(400, 400), posterior="full"),
        lambda: Full.empty(160_400),
        lambda: Full.of_precision(torch.zeros(160_400), torch.zeros(1, 1)),
    ):
        with pytest.raises(
            UsageError, match=r"full covariance of 160400 weights has 2.6e\+10 entries; 10000 .*select="
        ):
            build()
    with pytest.raises(UsageError, match=r"not \(3,\), \(3,\), \(2,\)"):
        Full(torch.zeros(3), torch.zeros(3), torch.zeros(2))
    monkeypatch.setattr(source, "MOST_WEIGHTS", 2)
    with pytest.raises(UsageError, match="3 weights"):
        Full.empty(3)


def test_entries_of_the_triangle_know_their_weight():
    q = full()
    rows = torch.tril_indices(N, N, -1)[0].tolist()
    assert [q.weight_index(q.lower, k) for k in range(len(rows))] == rows
    assert q.weight_index(q.rho, 4) == 4


def test_groups_train_the_triangle_with_the_sds():
    q = full()
    assert list(q.groups()) == ["mean", "sd"]
    assert [id(p) for p in q.groups()["sd"]] == [id(q.rho), id(q.lower)]


def test_a_training_that_diverges_says_so():
    torch.manual_seed(0)
    net = pt.bayesian(nn.Linear(3, 1), posterior="full", rho=-1.0, seed=0)
    with pytest.raises(NonFiniteError, match="Try a lower lr"):
        pt.fit(net, (torch.randn(20, 3), torch.randn(20, 1)), epochs=50, batch_size=5, lr=1e25, optimizer="sgd")


def test_a_prior_over_groups_of_weights_has_no_closed_form():
    net = pt.bayesian(nn.Linear(3, 2), prior=pt.FromPenalty("group_lasso_rows"), posterior="full")
    with pytest.raises(UsageError, match="no closed-form KL from a full posterior to a penalty prior"):
        net.posterior.kl_by_weight(net.prior)
