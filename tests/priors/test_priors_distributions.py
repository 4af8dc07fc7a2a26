"""Distributions of PyTorch as priors, against their own log_prob, sampling and quadrature."""

import pytest
import torch
from torch import distributions as D
from torch import nn

import posterity as pt
from posterity.core.errors import UsageError
from posterity.core.layout import Layout
from posterity.priors import prior_rule

MODEL = nn.Linear(3, 2).double()
SPIKE_AND_SLAB = D.MixtureSameFamily(
    D.Categorical(torch.tensor([0.3, 0.7])), D.Normal(torch.zeros(2), torch.tensor([0.01, 1.0]))
)
TWO_HILLS = D.MixtureSameFamily(
    D.Categorical(torch.tensor([0.3, 0.7])), D.Normal(torch.tensor([-1.0, 1.0]), torch.tensor([0.5, 0.7]))
)


class Logistic(D.Distribution):
    """One that PyTorch does not have."""

    support = D.constraints.real
    arg_constraints = {}  # noqa: RUF012
    mean, stddev = torch.tensor(0.0), torch.tensor(torch.pi / 3**0.5)

    def log_prob(self, value):
        return -value - 2 * torch.nn.functional.softplus(-value)


GIVEN = {
    "normal": (D.Normal(0.1, 0.3), "gaussian"),
    "laplace": (D.Laplace(0.0, 0.1), "laplace"),
    "student": (D.StudentT(5.0, 0.2, 0.3), "student_t"),
    "spike and slab": (SPIKE_AND_SLAB, "mixture"),
    "two hills": (TWO_HILLS, "distribution"),
    "gumbel": (D.Gumbel(0.0, 0.2), "distribution"),
    "cauchy": (D.Cauchy(0.1, 0.2), "distribution"),
    "affine": (D.TransformedDistribution(D.Normal(0.0, 1.0), [D.AffineTransform(1.0, 2.0)]), "tabulated"),
    "own": (Logistic(), "tabulated"),
}
EVERY = pytest.mark.parametrize("name", GIVEN)


def bound(name):
    layout = Layout.of(MODEL)
    return prior_rule(GIVEN[name][0]).bind(layout, torch.zeros(layout.num_weights, dtype=torch.float64))


@EVERY
def test_has_the_distributions_density(name):
    known, kind = GIVEN[name]
    prior = bound(name)
    assert prior.kind == kind
    w = torch.linspace(-2, 2, 8, dtype=torch.float64)
    expected = known.log_prob(w)
    torch.testing.assert_close(prior.log_density_by_weight(w), expected.double(), rtol=2e-5, atol=2e-5)


@EVERY
def test_its_expectation_is_the_densitys(name):
    known, _ = GIVEN[name]
    prior, count = bound(name), len(bound(name).sd)
    mean, sd = torch.full((count,), 0.3).double(), torch.full((count,), 0.2).double()
    z = torch.linspace(-9, 9, 20001, dtype=torch.float64)
    density = torch.exp(-z.square() / 2) / (2 * torch.pi) ** 0.5
    expected = torch.trapezoid(density * known.log_prob(0.3 + 0.2 * z).double(), z)
    found = prior.expected_log_density(mean, sd)
    torch.testing.assert_close(found, expected.expand(count), rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("name", ["two hills", "gumbel", "own"])
def test_samples_have_its_moments(name):
    prior = bound(name)
    torch.manual_seed(0)
    samples = prior.sample(torch.randn(20000, 8, dtype=torch.float64))
    torch.testing.assert_close(samples.mean(), prior.mean.mean(), rtol=0, atol=0.02)
    torch.testing.assert_close(samples.std(), prior.sd[0], rtol=0.02, atol=0)


@EVERY
def test_is_trained_saved_and_loaded(name, tmp_path):
    torch.manual_seed(0)
    model, x = nn.Linear(3, 2), torch.randn(30, 3)
    net = pt.bayesian(model, prior=GIVEN[name][0])
    history = pt.fit(net, (x, (x[:, 0] > 0).long()), epochs=3, batch_size=10, temperature=0.1).history
    assert history[-1]["nll"] < history[0]["nll"]
    pt.save(net, tmp_path / "net.safetensors")
    loaded = pt.load(tmp_path / "net.safetensors", model)
    assert torch.equal(*(pt.kl_divergence(each.posterior, each.prior) for each in (loaded, net)))


def test_as_one_of_several_parts():
    net = pt.bayesian(nn.Linear(3, 2), prior=pt.Parts({"bias": D.Cauchy(0.0, 1.0), "*": D.Laplace(0.0, 0.1)}))
    assert [part.kind for part in net.prior.priors] == ["distribution", "laplace"]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (D.HalfNormal(1.0), "any real number"),
        (D.Normal(torch.zeros(3), 1.0), r"shape \(3,\).*Parts"),
        (D.Dirichlet(torch.ones(3)), "of one weight"),
        (D.StudentT(1.5), "neither a standard deviation nor quantiles"),
    ],
)
def test_refusals(given, words):
    with pytest.raises(UsageError, match=words):
        pt.bayesian(nn.Linear(3, 2), prior=given)
