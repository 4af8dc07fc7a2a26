"""What every posterior family must do."""

import pytest
import torch
from torch import nn

import posterity as pt
from posterity.objectives import kl_by_weight, kl_divergence
from posterity.posteriors import POSTERIORS, LowRank, MeanField, Point, Posterior, Samples
from posterity.priors import FlatGaussian

N, S = 5, 20_000


def vectors(dtype):
    g = torch.Generator().manual_seed(0)
    return [torch.randn(N, generator=g, dtype=torch.float64).to(dtype) for _ in range(5)]


FAMILIES = {
    "mean_field": lambda dtype: MeanField(vectors(dtype)[0], vectors(dtype)[1] - 1),
    "point": lambda dtype: Point(vectors(dtype)[0]),
    "samples": lambda dtype: Samples(torch.stack(vectors(dtype)[:3])),
    "low_rank": lambda dtype: LowRank(vectors(dtype)[0], vectors(dtype)[1] - 1, torch.stack(vectors(dtype)[2:])),
}
EVERY = pytest.mark.parametrize("name", FAMILIES)


def noise(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def build(name, dtype=torch.float64):
    return FAMILIES[name](dtype)


def test_all_families_are_here():
    assert {c.kind for c in Posterior.__subclasses__() if c.__module__.startswith("posterity.")} == set(FAMILIES)
    assert set(POSTERIORS) == set(FAMILIES)


@EVERY
def test_samples_match_the_moments(name):
    q = build(name)
    weights = q.sample(noise(S, q.noise_size)).detach()
    sd = q.sd.detach()
    assert weights.shape == (S, N)
    assert ((weights.mean(0) - q.mean).abs() <= 4 * sd / S**0.5 + 1e-12).all()
    assert ((weights.var(0) - q.variance()).abs() <= 4 * sd**2 * (2 / S) ** 0.5 + 1e-12).all()


@EVERY
def test_one_sample_is_a_row_of_many(name):
    q = build(name)
    eps = noise(3, q.noise_size)
    many = q.sample(eps)
    exact = {} if name == "low_rank" else {"rtol": 0, "atol": 0}  # a matrix product's order of summation may differ
    for i in range(3):
        torch.testing.assert_close(q.sample(eps[i]), many[i], **exact)


@EVERY
def test_samples_are_differentiable_in_every_parameter(name):
    q = build(name)
    if not list(q.parameters()):
        pytest.skip("nothing to train")
    q.sample(noise(2, q.noise_size)).square().sum().backward()
    assert all((p.grad != 0).all() for p in q.parameters())


@EVERY
def test_entropy_is_minus_the_mean_log_density(name):
    q = build(name)
    logs = q.log_density(q.sample(noise(S, q.noise_size))).detach()
    assert logs.shape == (S,)
    if torch.isinf(q.entropy()):
        assert (logs == torch.inf).all()
    else:
        assert (logs.mean() + q.entropy()).abs() < 4 * logs.std() / S**0.5


@EVERY
def test_groups_hold_every_parameter_once(name):
    q = build(name)
    grouped = [p for group in q.groups().values() for p in group]
    assert {id(p) for p in grouped} == {id(p) for p in q.parameters()}
    assert len(grouped) == len(list(q.parameters()))
    if grouped:
        assert q.groups()["mean"][0] is q.mean
        assert q.random == ("sd" in q.groups())


@EVERY
def test_takes_copies_of_what_it_is_given(name):
    given = {"mean": torch.zeros(3), "rho": torch.zeros(3), "deviations": torch.zeros(2, 3)}
    given = {k: given[k] for k, _ in build(name).named_parameters()} or {"weights": torch.zeros(2, 3)}
    q = POSTERIORS[name](**given)
    for tensor in given.values():
        tensor += 1
    assert all(torch.equal(p, torch.zeros_like(p)) for p in q.state_dict().values())


@EVERY
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_keeps_its_precision(name, dtype):
    q = build(name, dtype)
    results = [
        q.sample(noise(2, q.noise_size).to(dtype)),
        q.log_density(noise(2, N).to(dtype)),
        q.entropy(),
        q.sd,
        q.variance(),
    ]
    assert all(r.dtype == dtype for r in results)


@EVERY
@pytest.mark.parametrize("centred", [False, True])
def test_kl_and_its_gradient(name, centred):
    """KL = -entropy - E_q log prior, where the entropy is finite; else the last term alone."""
    q = build(name)
    prior = FlatGaussian(torch.linspace(0.5, 2, N).double(), torch.ones(N).double() if centred else None)
    kl = kl_divergence(q, prior)
    torch.testing.assert_close(kl_by_weight(q, prior).sum(), kl)
    cross = -prior.log_density(q.mean) + (0.5 * q.variance() * prior.precision).sum()
    entropy = q.entropy() if torch.isfinite(q.entropy()) else 0
    torch.testing.assert_close(kl, cross - entropy)
    if list(q.parameters()):
        assert all((g != 0).all() for g in torch.autograd.grad(kl, list(q.parameters())))


@EVERY
def test_state_round_trip(name):
    q, other = build(name), build(name)
    with torch.no_grad():
        for p in other.state_dict().values():
            p += 1
    other.load_state_dict(q.state_dict())
    assert torch.equal(other.sample(noise(2, q.noise_size)), q.sample(noise(2, q.noise_size)))


@EVERY
def test_is_rebuilt_from_its_options(name):
    q = build(name)
    other = POSTERIORS[name].empty(N, kind=name, **q.options()).double()
    other.load_state_dict(q.state_dict())
    assert torch.equal(other.sample(noise(2, q.noise_size)), q.sample(noise(2, q.noise_size)))


@EVERY
def test_a_network_is_trained_saved_loaded_and_predicts(name, tmp_path):
    if not list(build(name).parameters()):
        pytest.skip("nothing to train: test_samples.py saves and loads it")
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    net = pt.bayesian(model, posterior=name, rho=-3.0, likelihood=pt.Categorical(), seed=0)
    x = torch.randn(30, 3)
    result = pt.fit(net, (x, (x[:, 0] > 0).long()), epochs=20, batch_size=10, lr=0.05, temperature=0.1)
    record = result.history[-1]
    assert record["nll"] < result.history[0]["nll"]
    assert sum(record["kl_by_layer"].values()) == pytest.approx(record["kl"], rel=1e-5)
    pt.save(net, tmp_path / "net.safetensors")
    loaded = pt.load(tmp_path / "net.safetensors", model)
    assert loaded.posterior.kind == name
    assert torch.equal(loaded.predict(x, 5, seed=1).samples, net.predict(x, 5, seed=1).samples)
