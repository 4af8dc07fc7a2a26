"""What every posterior family must do."""

import math
from inspect import isabstract

import pytest
import torch
from torch import nn

import posterity as pt
from posterity.core.errors import UnknownNameError, UsageError
from posterity.core.layout import Entry, Layout
from posterity.objectives import kl_by_weight, kl_divergence
from posterity.posteriors import (
    POSTERIORS,
    Full,
    LowRank,
    MeanField,
    Mixture,
    Point,
    Posterior,
    Samples,
    Tied,
    posterior_options,
)
from posterity.priors import FlatGaussian

N, S = 5, 20_000


def vectors(dtype):
    g = torch.Generator().manual_seed(0)
    return [torch.randn(N, generator=g, dtype=torch.float64).to(dtype) for _ in range(5)]


FAMILIES = {
    "mean_field": lambda dtype: MeanField(vectors(dtype)[0], vectors(dtype)[1] - 1),
    "tied": lambda dtype: Tied(vectors(dtype)[0], vectors(dtype)[1][:2] - 1, [2, N - 2]),
    "point": lambda dtype: Point(vectors(dtype)[0]),
    "samples": lambda dtype: Samples(torch.stack(vectors(dtype)[:3])),
    "low_rank": lambda dtype: LowRank(vectors(dtype)[0], vectors(dtype)[1] - 1, torch.stack(vectors(dtype)[2:])),
    "full": lambda dtype: Full(vectors(dtype)[0], vectors(dtype)[1] - 1, torch.cat(vectors(dtype)[2:4])),
    "mixture": lambda dtype: Mixture([MeanField(v, vectors(dtype)[1] - 1) for v in vectors(dtype)[2:]]),
}
TOGETHER = ("low_rank", "full")  # families whose weights depend on each other under q
SLACK = {"mixture": math.log(3)}  # what the entropy may be less, and the KL more, than it is: they are bounds
EVERY = pytest.mark.parametrize("name", FAMILIES)


def noise(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def family(name, dtype=torch.float64):
    return FAMILIES[name](dtype)


def subclasses(family):
    return {family}.union(*map(subclasses, family.__subclasses__()))


def test_all_families_are_here():
    ours = {c for c in subclasses(Posterior) if c.__module__.startswith("posterity.") and not isabstract(c)}
    assert {c.kind for c in ours} == set(FAMILIES) == set(POSTERIORS)


@EVERY
def test_samples_match_the_moments(name):
    q = family(name)
    weights = q.sample(noise(S, q.noise_size)).detach()
    sd = q.sd.detach()
    assert weights.shape == (S, N)
    assert ((weights.mean(0) - q.mean).abs() <= 4 * sd / S**0.5 + 1e-12).all()
    assert ((weights.var(0) - q.variance()).abs() <= 4 * sd**2 * (2 / S) ** 0.5 + 1e-12).all()


@EVERY
def test_one_sample_is_a_row_of_many(name):
    q = family(name)
    eps = noise(3, q.noise_size)
    many = q.sample(eps)
    exact = {} if name in TOGETHER else {"rtol": 0, "atol": 0}  # a matrix product's order of summation may differ
    for i in range(3):
        torch.testing.assert_close(q.sample(eps[i]), many[i], **exact)


@EVERY
def test_samples_are_differentiable_in_every_parameter(name):
    q = family(name)
    if not list(q.parameters()):
        pytest.skip("nothing to train")
    q.sample(noise(20, q.noise_size)).square().sum().backward()
    assert all((p.grad != 0).all() for p in q.parameters())


@EVERY
def test_entropy_is_minus_the_mean_log_density(name):
    q = family(name)
    logs = q.log_density(q.sample(noise(S, q.noise_size))).detach()
    assert logs.shape == (S,)
    if torch.isinf(q.entropy()):
        assert (logs == torch.inf).all()
    else:
        excess, error = -logs.mean() - q.entropy(), 4 * logs.std() / S**0.5
        assert -error < excess < SLACK.get(name, 0) + error


@EVERY
def test_groups_hold_every_parameter_once(name):
    q = family(name)
    grouped = [p for group in q.groups().values() for p in group]
    assert {id(p) for p in grouped} == {id(p) for p in q.parameters()}
    assert len(grouped) == len(list(q.parameters()))
    if grouped:
        assert q.groups()["mean"][0] is (q.parts[0].mean if name == "mixture" else q.mean)
        assert q.random == ("sd" in q.groups())


@EVERY
def test_takes_copies_of_what_it_is_given(name):
    if name == "mixture":
        point = Point(torch.zeros(3))
        q = Mixture([point])
        point.mean.data += 1
        assert torch.equal(q.mean, torch.zeros(3))
        return
    given = {"mean": torch.zeros(3), "rho": torch.zeros(3), "deviations": torch.zeros(2, 3), "lower": torch.zeros(3)}
    given = {k: given[k] for k, _ in family(name).named_parameters()} or {"weights": torch.zeros(2, 3)}
    q = POSTERIORS[name](**given, **({"sizes": [1, 1, 1]} if name == "tied" else {}))
    for tensor in given.values():
        tensor += 1
    assert all(torch.equal(p, torch.zeros_like(p)) for p in q.state_dict().values())


@EVERY
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_keeps_its_precision(name, dtype):
    q = family(name, dtype)
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
    q = family(name)
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
    q, other = family(name), family(name)
    with torch.no_grad():
        for p in other.state_dict().values():
            p += 1
    other.load_state_dict(q.state_dict())
    assert torch.equal(other.sample(noise(2, q.noise_size)), q.sample(noise(2, q.noise_size)))


@EVERY
def test_is_rebuilt_from_its_options(name):
    q = family(name)
    other = POSTERIORS[name].empty(N, kind=name, **q.options()).double()
    other.load_state_dict(q.state_dict())
    assert torch.equal(other.sample(noise(2, q.noise_size)), q.sample(noise(2, q.noise_size)))


@EVERY
def test_starts_where_it_is_told(name):
    mean, sd = vectors(torch.float32)[0], torch.full((N,), 0.01)
    given = {"layers": [2, N - 2], "seed": 0}
    if not POSTERIORS[name].trainable:
        with pytest.raises(UsageError, match=r"collected, not trained|made of networks"):
            POSTERIORS[name].start(mean, sd, **given)
        return
    q = POSTERIORS[name].start(mean, sd, **given)
    assert torch.equal(q.mean, mean)
    assert q.mean.dtype == torch.float32
    torch.testing.assert_close(q.sd.detach(), sd * q.random, rtol=0.1 if name == "low_rank" else 1e-6, atol=0)
    message = f"option of a {name} posterior 'shape'" if posterior_options(name) else "takes no options, .* given shape"
    with pytest.raises(UnknownNameError if posterior_options(name) else UsageError, match=message):
        POSTERIORS[name].start(mean, sd, **given, shape=3)


@EVERY
def test_says_which_options_it_takes(name):
    own = {"low_rank": {"rank": 8}, "tied": {"share": "all"}}
    assert posterior_options(name) == own.get(name, {})


@EVERY
def test_sets_its_sds_or_says_that_it_has_none(name):
    q = family(name)
    if not (q.random and q.independent):
        with pytest.raises(UsageError, match=f"{name} posterior has no standard deviations"):
            q.set_sd(q.sd)
        return
    q.set_sd(3 * q.sd.detach())
    torch.testing.assert_close(q.sd, 3 * family(name).sd)


@EVERY
@pytest.mark.parametrize(
    "rule", [pt.Laplace(0.5), pt.StudentT(0.5), pt.ScaleMixture(), pt.FromPenalty("group_lasso_rows")]
)
def test_kl_to_every_prior_is_the_mean_of_its_draws(name, rule):
    """log q(w) - log prior(w) over draws of w; for q without a density -log prior(w), up to a constant."""
    q, layout = family(name), Layout((Entry("weight", (1, N), N, 1),))
    prior = rule.bind(layout, q.mean.detach())
    assert q.has_kl(prior) == (name not in TOGETHER or prior.factorised)
    if not q.has_kl(prior):
        return
    weights = q.sample(noise(S, q.noise_size)).detach()
    if torch.isinf(q.entropy()):
        found = prior.energy_by_weight(weights).sum(-1)
    else:
        found = q.log_density(weights) - prior.log_density(weights)
    kl = kl_divergence(q, prior)
    torch.testing.assert_close(kl_by_weight(q, prior).sum(), kl)
    error = 4 * found.std() / S**0.5 + 1e-9
    assert -error < kl - found.mean() < SLACK.get(name, 0) + error


@EVERY
def test_a_network_is_trained_saved_loaded_and_predicts(name, tmp_path):
    if not POSTERIORS[name].trainable:
        pytest.skip("not trained as it is: test_samples.py and test_training_ensemble.py save and load these")
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
