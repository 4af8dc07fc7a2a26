"""Shapes of priors against torch.distributions, their limits, their mistakes."""

import math

import numpy as np
import pytest
import torch
from torch import nn
from torch.distributions import Categorical, MixtureSameFamily, Normal
from torch.distributions import Laplace as TorchLaplace
from torch.distributions import StudentT as TorchStudentT

import posterity as pt
from posterity.core.errors import UsageError
from posterity.core.layout import Layout
from posterity.objectives import kl_divergence
from posterity.posteriors import MeanField, rho_of
from posterity.priors import FlatGaussian, FlatLaplace, FlatMixture, FlatStudentT, FlatTabulated

MODEL = nn.Sequential(nn.Linear(8, 3), nn.Linear(3, 2))
LAYOUT = Layout.of(MODEL)
N = LAYOUT.num_weights
SD = torch.linspace(0.2, 2, 6, dtype=torch.float64)
MEAN = torch.linspace(-1, 1, 6, dtype=torch.float64)


def randn(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def references():
    mixture = MixtureSameFamily(
        Categorical(torch.tensor([0.3, 0.7], dtype=torch.float64)),
        Normal(MEAN.unsqueeze(-1), torch.stack([SD, 0.1 * SD], -1)),
    )
    return {
        "laplace": (FlatLaplace(SD, MEAN), TorchLaplace(MEAN, SD / math.sqrt(2))),
        "student_t": (FlatStudentT(SD, MEAN, df=5), TorchStudentT(5.0, MEAN, SD * math.sqrt(3 / 5))),
        "mixture": (FlatMixture(SD, 0.1 * SD, MEAN, pi=0.3), mixture),
    }


@pytest.mark.parametrize("name", references())
def test_density_and_sd_agree_with_torch(name):
    prior, reference = references()[name]
    weights = 3 * randn(20, 6)
    torch.testing.assert_close(prior.log_density_by_weight(weights), reference.log_prob(weights))
    torch.testing.assert_close(prior.sd, reference.variance.sqrt())
    assert prior.log_density(torch.full((6,), 1e3, dtype=torch.float64)).isfinite()


def test_limits():
    weights = randn(5, 6)
    normal = Normal(torch.zeros(6, dtype=torch.float64), SD).log_prob(weights)
    torch.testing.assert_close(FlatMixture(SD, 0.1 * SD, pi=1.0).log_density_by_weight(weights), normal)
    torch.testing.assert_close(FlatMixture(SD, SD, pi=0.2).log_density_by_weight(weights), normal)
    heavy = FlatStudentT(SD, df=1e8).log_density_by_weight(weights)
    torch.testing.assert_close(heavy, normal, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(FlatMixture(SD, 0.1 * SD, pi=1.0).sample(weights), SD * weights)


def test_a_table_of_a_gaussian_is_the_gaussian():
    grid = np.linspace(-3, 5, 801)
    table = pt.Tabulated(grid, -0.5 * ((grid - 1) / 0.5) ** 2 + 7).bind(LAYOUT, torch.zeros(N, dtype=torch.float64))
    assert isinstance(table, FlatTabulated)
    weights = 1 + randn(4, N)
    normal = Normal(torch.tensor(1.0).double(), 0.5).log_prob(weights)
    torch.testing.assert_close(table.log_density_by_weight(weights), normal, rtol=0, atol=1e-5)
    torch.testing.assert_close(table.sd, torch.full((N,), 0.5).double())
    # Beyond the table a straight line with the end's slope, -16 at 5.
    out = table.log_density_by_weight(torch.tensor([[5.0], [6.0], [7.0]]).double().expand(3, N))[:, 0]
    torch.testing.assert_close(out.diff(), torch.full((2,), -16.0).double(), rtol=1e-3, atol=0)


@pytest.mark.parametrize(
    ("rule", "match"),
    [
        (pt.Laplace(1.0, mean="nosuch"), "nosuch"),
        (pt.Parts({"0.*": pt.Gaussian(1.0)}), "no pattern gives a prior to 1.weight, 1.bias"),
        (pt.Parts({"*": pt.Gaussian(1.0), "0.*": pt.Laplace(1.0)}), "'0.*' matches only what an earlier pattern took"),
        (pt.Parts({"*": pt.Parts({"0.*": pt.Laplace(), "*": pt.Gaussian()})}), "themselves be made of parts"),
    ],
)
def test_mistakes(rule, match):
    with pytest.raises(UsageError, match=match.replace("*", r"\*")):
        rule.bind(LAYOUT, torch.zeros(N))


@pytest.mark.parametrize(("sd1", "sd2"), [(0.1, 1.0), (1.0, 0.1)])
def test_a_mixture_of_one_component_is_the_gaussian(sd1, sd2):
    q = MeanField(MEAN, rho_of(SD))
    mixture = FlatMixture(sd1 * torch.ones(6, dtype=torch.float64), sd2 * torch.ones(6, dtype=torch.float64), pi=1.0)
    gaussian = FlatGaussian(sd1 * torch.ones(6, dtype=torch.float64))
    torch.testing.assert_close(kl_divergence(q, mixture), kl_divergence(q, gaussian))


def test_scales_have_the_precision_of_the_network():
    assert pt.bayesian(nn.Linear(2, 2).double(), prior=0.1).prior.sd[0].item() == pytest.approx(0.1, rel=1e-15)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: pt.Gaussian(-1), "scale must be a positive number, not -1"),
        (lambda: pt.Gaussian("kaimng"), "Did you mean 'kaiming'"),
        (lambda: pt.Laplace(-1.0), "positive number"),
        (lambda: pt.StudentT(df=2), "df above 2"),
        (lambda: pt.ScaleMixture(pi=1.5), "pi is a probability above 0, not 1.5"),
        (lambda: pt.ScaleMixture(sd2=-1.0), "scale"),
        (lambda: pt.FromPenalty("lasso"), "unknown penalty 'lasso'"),
        (lambda: pt.ScaleMixture(pi=0.0), "probability"),
        (lambda: pt.FromPenalty("l1", 0.0), "positive number, not 0"),
        (lambda: pt.Tabulated(range(9), range(8)), "finite value at each"),
        (lambda: pt.Tabulated([0, 1], [0, 1]), "at least 8 points"),
        (lambda: pt.Tabulated(np.arange(9.0) ** 2, -np.arange(9.0)), "even steps"),
        (lambda: pt.Tabulated(np.arange(9.0), np.arange(9.0)), "fall towards both ends"),
        (lambda: pt.Tabulated(np.linspace(-1, 1, 9), -(np.linspace(-1, 1, 9) ** 2), -1.0), "scale"),
    ],
)
def test_mistakes_are_found_when_a_rule_is_made(make, message):
    with pytest.raises(UsageError, match=message):
        make()
