"""Penalties that are KL divergences and those that are not (source 004, in one dimension)."""

import math

import numpy as np
import pytest
import torch
from torch import nn

import posterity as pt
from posterity.core.errors import UsageError
from posterity.core.layout import Layout
from posterity.objectives import kl_divergence
from posterity.posteriors import MeanField, rho_of
from posterity.priors.equivalence import penalty_of, prior_of, quadratic_prior
from posterity.priors.families import FAMILIES

ENTROPY = 0.5 * math.log(2 * math.pi * math.e)


def smooth_laplace(w):
    return -np.sqrt(2 * (w**2 + 0.05**2))


def two_hills(w):
    return np.logaddexp(-2 * (w - 1.2) ** 2, -2 * (w + 1.2) ** 2)


def log_density(prior, grid):
    if callable(prior):
        values = prior(grid)
    else:
        layout = Layout.of(nn.Linear(1, len(grid), bias=False))
        bound = prior.bind(layout, torch.zeros(len(grid)).double())
        values = bound.log_density_by_weight(torch.from_numpy(grid)).numpy()
    return values - math.log(np.exp(values).sum() * (grid[1] - grid[0]))


PRIORS = {
    "gaussian": pt.Gaussian(1.0),
    "gaussian off centre": pt.Gaussian(0.7, mean=0.5),
    "laplace": pt.Laplace(1.0),
    "smooth laplace": smooth_laplace,
    "student_t": pt.StudentT(1.0),
    "heavy student_t": pt.StudentT(1.0, df=2.5),
    "mixture": pt.ScaleMixture(0.5, 1.0, 0.2),
    "two hills": two_hills,
}


CASES = [("gaussian", name) for name in PRIORS] + [("laplace", n) for n in ("gaussian", "smooth laplace", "two hills")]


@pytest.mark.parametrize(("family", "name"), CASES)
def test_prior_to_penalty_to_prior(family, name):
    found = prior_of(penalty_of(PRIORS[name], family), family)
    assert found.is_kl, found.reason
    assert found.dependence < 1e-2
    expected = log_density(PRIORS[name], found.grid)
    where = expected > expected.max() - 9
    if name == "laplace":  # a corner is rounded off over a few times the resolution
        where &= np.abs(found.grid) > 4 * found.resolution
    assert np.abs(found.log_density - expected)[where].max() < (2e-3 if name == "laplace" else 1e-3)


@pytest.mark.parametrize("scale", [0.02, 300.0])
def test_units_do_not_matter(scale):
    found = prior_of(penalty_of(pt.StudentT(scale)), scale=scale)
    assert found.is_kl
    assert found.sd == pytest.approx(scale, rel=1e-3)
    # A guess that is off by a factor of ten is found out.
    found = prior_of(penalty_of(pt.Gaussian(10 * scale)), scale=scale)
    assert found.sd == pytest.approx(10 * scale, rel=1e-5)


SHAPES = {"gaussian": pt.Gaussian, "laplace": pt.Laplace, "student_t": lambda scale: pt.StudentT(scale, df=5.0)}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("ratio", [1 / 200, 1 / 28, 1 / 5, 3.0, 15.0, 16.0, 20.0, 28.0, 40.0, 200.0])
def test_a_prior_of_another_width_than_expected_is_found(shape, ratio):
    """Also where the window's edge is still within the prior, which then seems to fall as a slow power."""
    found = prior_of(penalty_of(SHAPES[shape](ratio)))
    assert found.is_kl, found.reason
    assert found.sd == pytest.approx(ratio, rel=2e-4)
    assert found.mass == pytest.approx(1, abs=2e-4)


@pytest.mark.parametrize("family", ["gaussian", "delta"])
@pytest.mark.parametrize("width", [1.0, 20.0, 100.0])
def test_a_prior_without_a_standard_deviation_is_reported_as_that(family, width):
    """Cauchy: exp(A) falls as w^-2 on every window."""
    found = prior_of(penalty_of(lambda w: -np.log1p((w / width) ** 2), family), family)
    assert found.is_kl, found.reason
    assert math.isinf(found.sd)
    assert found.exponent == pytest.approx(2, abs=0.05)
    assert found.mass == pytest.approx(math.pi * width, rel=5e-3)


def test_a_penalty_that_overflows_on_a_wider_window():
    """Nearly uniform between -100 and 100; the window that would fit its sd best is out of reach."""
    found = prior_of(lambda w: np.where(np.abs(w) < 100, 0.0, np.exp(np.abs(w) - 99)), "delta")
    assert found.is_kl
    assert found.sd == pytest.approx(100 / math.sqrt(3), rel=1e-2)
    assert not prior_of(lambda w: np.where(np.abs(w) < 600, 0.0, np.exp(2 * np.abs(w))), "delta").is_kl


def test_there_and_back_in_the_delta_family():
    found = prior_of(penalty_of(pt.Laplace(1.0), "delta"), "delta")
    assert found.is_kl
    assert found.sd == pytest.approx(1, abs=1e-3)
    with pytest.raises(UsageError, match="nu above 0, not 0"):
        penalty_of(pt.Laplace(1.0))(np.zeros(1))


@pytest.mark.parametrize("prior", [pt.Gaussian(0.5), pt.Laplace(0.8), pt.StudentT(1.0), pt.ScaleMixture(0.5, 1.0, 0.1)])
def test_penalty_of_is_the_kl(prior):
    mu, nu = np.linspace(-3, 3, 7), 0.4
    layout = Layout.of(nn.Linear(1, 7, bias=False))
    q = MeanField(torch.from_numpy(mu), rho_of(torch.full((7,), nu, dtype=torch.float64)))
    bound = prior.bind(layout, torch.zeros(7).double())
    values = penalty_of(prior)(mu, nu)
    assert values.sum() == pytest.approx(kl_divergence(q, bound).item(), rel=1e-9)

    # As a mere function, by the family's own quadrature.
    def log_alpha(w):
        return log_alpha_at(prior, w)

    np.testing.assert_allclose(penalty_of(log_alpha)(mu, nu), values, atol=1e-4 if "Lap" in repr(prior) else 1e-9)


def log_alpha_at(prior, w):
    layout = Layout.of(nn.Linear(1, w.size, bias=False))
    flat = torch.from_numpy(w.reshape(-1).copy())
    return prior.bind(layout, torch.zeros(w.size).double()).log_density_by_weight(flat).numpy().reshape(w.shape)


NOT_A_KL = {
    "squared L2 without its variance term": lambda mu, nu: 0.5 * mu**2,
    "squared L2 with half of it": lambda mu, nu: 0.5 * mu**2 - math.log(nu),
    "|mu|": lambda mu, nu: math.sqrt(2) * np.abs(mu),
    "|mu| with the entropy": lambda mu, nu: math.sqrt(2) * np.abs(mu) - ENTROPY - math.log(nu),
    "log(1 + mu^2) with the entropy": lambda mu, nu: np.log1p(mu**2) - ENTROPY - math.log(nu),
    "a factor that depends on nu": lambda mu, nu: 0.5 * (1 + nu) * (mu**2 + nu**2) - math.log(nu),
}


@pytest.mark.parametrize("name", NOT_A_KL)
def test_what_is_not_a_kl_is_said_not_to_be(name):
    found = prior_of(NOT_A_KL[name])
    assert not found.is_kl
    assert "depends on nu" in found.reason
    assert found.dependence > 0.05
    assert found.log_density is None
    with pytest.raises(UsageError, match="there is no prior"):
        found.prior()


def test_what_cannot_be_integrated():
    flat = prior_of(lambda mu, nu: 0 * mu - ENTROPY - math.log(nu))
    assert not flat.is_kl
    assert flat.dependence < 1e-2
    assert math.isinf(flat.mass)
    assert "cannot be integrated" in flat.reason
    assert not prior_of(lambda mu, nu: -0.5 * (mu**2 + nu**2) - math.log(nu)).is_kl
    assert not prior_of(lambda w: 0.3 * np.log1p(w**2), "delta").is_kl  # falls as |w|^-0.6
    assert prior_of(lambda w: np.log1p(w**2), "delta").is_kl  # Cauchy: no sd, but a prior
    assert math.isinf(prior_of(lambda w: np.log1p(w**2), "delta").sd)


def test_constants_do_not_matter_and_are_found():
    found = prior_of(lambda mu, nu: 0.5 * (mu**2 + nu**2 - 1) - math.log(nu) + 3.0)
    assert found.is_kl
    assert -math.log(found.mass) == pytest.approx(3, abs=1e-4)


def test_noise_costs_resolution_not_the_verdict():
    rng = np.random.default_rng(0)
    exact = prior_of(penalty_of(pt.StudentT(1.0)))
    noisy = prior_of(lambda mu, nu: penalty_of(pt.StudentT(1.0))(mu, nu) + 1e-5 * rng.normal(size=len(mu)))
    assert noisy.is_kl
    assert noisy.resolution > 1.3 * exact.resolution
    where = exact.log_density > -9
    assert np.abs(noisy.log_density - exact.log_density)[where].max() < 1e-2


def test_delta_family():
    found = prior_of(lambda w: math.sqrt(2) * np.abs(w), "delta")
    assert found.is_kl
    assert found.sd == pytest.approx(1, abs=1e-3)
    assert np.allclose(found.log_density, -math.sqrt(2) * np.abs(found.grid) - math.log(math.sqrt(2)), atol=1e-3)


@pytest.mark.parametrize("s02", [0.04, 1.0, 9.0])
def test_the_closed_form_of_the_corollary(s02):
    """With a and b in their right places, not the source's."""
    a = lambda s2: 0.5 * (s2 / s02 + math.log(s02 / s2) - 1)  # noqa: E731
    b = lambda s2: 1 / (2 * s02)  # noqa: E731
    found = quadratic_prior(lambda s2: a(s2) + 2.0, b)
    assert found.is_kl
    assert found.sd == pytest.approx(math.sqrt(s02))
    assert -math.log(found.mass) == pytest.approx(2)
    again = prior_of(lambda mu, nu: a(nu**2) + b(nu**2) * mu**2, scale=math.sqrt(s02))
    assert again.is_kl
    assert again.sd == pytest.approx(found.sd, rel=1e-4)
    assert not quadratic_prior(b, lambda s2: abs(a(s2)) + 1).is_kl  # exchanged, as printed
    assert not quadratic_prior(lambda s2: 0.0, b).is_kl
    assert not quadratic_prior(a, lambda s2: -1.0).is_kl


@pytest.mark.parametrize("name", ["gaussian", "laplace"])
def test_families_are_what_they_say(name):
    """Moments, entropy and characteristic function, by the family's own nodes and by sums of another kind."""
    family = FAMILIES[name]
    assert family.weights.sum() == pytest.approx(1)
    assert (family.weights * family.nodes**2).sum() == pytest.approx(1, rel=1e-9)
    for t in (0.3, 1.0, 2.5):
        cosine = family.expect(lambda w, t=t: np.cos(t * w), np.zeros(1), 1.0)[0]
        assert cosine == pytest.approx(family.characteristic(np.array([t]))[0], abs=1e-9)
    scale = torch.tensor(0.7 if name == "gaussian" else 0.7 / math.sqrt(2), dtype=torch.float64)
    kind = torch.distributions.Normal if name == "gaussian" else torch.distributions.Laplace
    assert family.entropy_at(0.7) == pytest.approx(kind(torch.zeros(()).double(), scale).entropy().item())


def test_a_derived_prior_trains_and_is_saved(small, make_net, tmp_path):
    found = prior_of(penalty_of(two_hills), scale=1.3)
    net = make_net(prior=found.prior("kaiming"))
    bound = net.prior
    torch.testing.assert_close(bound.sd, pt.Gaussian("kaiming").bind(net.layout, net.posterior.mean).sd)
    history = pt.fit(net, small, epochs=2, batch_size=30, temperature=0.1, lr=1e-2).history
    assert history[-1]["nll"] < history[0]["nll"]
    plain = nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.ReLU(), nn.Linear(8, 10))
    pt.save(net, tmp_path / "net")
    again = pt.load(tmp_path / "net", plain)
    assert torch.equal(kl_divergence(again.posterior, again.prior), kl_divergence(net.posterior, net.prior))


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"family": "cauchy"}, "unknown family"),
        ({"scale": -1.0}, "positive number"),
        ({"spreads": (0.1, 0.1)}, "at least two different"),
    ],
)
def test_mistakes(options, match):
    with pytest.raises(UsageError, match=match):
        prior_of(lambda mu, nu: mu**2, **options)


def test_a_prior_of_bounded_support_is_refused():
    with np.errstate(divide="ignore"), pytest.raises(UsageError, match="bounded support"):
        prior_of(lambda w: np.where(np.abs(w) < 1, 0.0, np.inf), "delta")
