"""Shapes of priors against torch.distributions, their limits, their mistakes; parts by name; empirical Bayes."""

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
from posterity.objectives import kl_divergence, learn_scale
from posterity.posteriors import MeanField, rho_of
from posterity.priors import FlatGaussian, FlatLaplace, FlatMixture, FlatParts, FlatStudentT, FlatTabulated
from posterity.priors.expectations import expected_abs, expected_norm

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


def test_parts_are_priors_of_their_own_weights():
    """Interleaved: weights under one prior, biases under another; the first match decides."""
    rules = {"0.weight": pt.StudentT(0.2), "*.weight": pt.Laplace(0.1), "*": pt.Gaussian("glorot")}
    prior = pt.Parts(rules).bind(LAYOUT, torch.zeros(N, dtype=torch.float64))
    assert isinstance(prior, FlatParts)
    weights = randn(2, N)
    views = LAYOUT.views(prior.log_density_by_weight(weights))
    alone = {
        "0.weight": pt.StudentT(0.2), "0.bias": pt.Gaussian("glorot"),
        "1.weight": pt.Laplace(0.1), "1.bias": pt.Gaussian("glorot"),
    }  # fmt: skip
    for name, rule in alone.items():
        expected = LAYOUT.views(rule.bind(LAYOUT, torch.zeros(N).double()).log_density_by_weight(weights))[name]
        torch.testing.assert_close(views[name], expected)


def test_parts_that_are_all_gaussian_are_one_gaussian():
    prior = pt.Parts({"*.bias": pt.Gaussian(2.0, mean=1.0), "*": pt.Gaussian(0.5)}).bind(LAYOUT, torch.zeros(N))
    assert isinstance(prior, FlatGaussian)
    sds, means = LAYOUT.views(prior.sd), LAYOUT.views(prior.mean)
    assert sds["0.bias"].unique().item() == 2
    assert sds["1.weight"].unique().item() == 0.5
    assert means["1.bias"].unique().item() == 1
    assert means["0.weight"].unique().item() == 0
    assert pt.Parts({"*": pt.Gaussian(0.5)}).bind(LAYOUT, torch.zeros(N)).centre is None


def test_pretrained_means_of_parts():
    weights = randn(N)
    rules = {"1.*": pt.Laplace(0.1, mean="pretrained"), "*": pt.Gaussian(1.0)}
    means = LAYOUT.views(pt.Parts(rules).bind(LAYOUT, weights).mean)
    assert torch.equal(means["1.weight"], LAYOUT.views(weights)["1.weight"])
    assert not means["0.weight"].any()


@pytest.mark.parametrize(
    "rule",
    [
        pt.Gaussian(0.3),
        pt.Gaussian(0.3, mean="pretrained"),
        pt.Laplace(0.3),
        pt.Laplace(0.3, mean=0.5),
        pt.Parts({"0.*": pt.Laplace(0.1), "*": pt.Gaussian(0.3)}),
    ],
)
def test_learnt_scale_minimises_the_kl(rule):
    """No other scale of any one weight tensor does better, by grid search; and the slope there is zero."""
    net = pt.bayesian(MODEL, prior=rule, rho=-2.0).double()
    with torch.no_grad():
        net.posterior.mean.add_(0.3 * randn(N, seed=1))
        net.posterior.rho.add_(randn(N, seed=2))
    before = kl_divergence(net.posterior, net.prior)
    learn_scale(net)
    best = kl_divergence(net.posterior, net.prior).item()
    assert best < before
    kept = {k: v.clone() for k, v in net.prior.state_dict().items()}
    for name, buffer in net.prior.named_buffers():
        if "centre" in name:
            continue
        for factor in (0.5, 0.9, 0.999, 1.001, 1.1, 2.0):
            for value in buffer.unique():
                buffer[kept[name] == value] *= factor
                assert kl_divergence(net.posterior, net.prior).item() > best
                net.prior.load_state_dict(kept)


def test_what_cannot_be_learnt(make_net):
    with pytest.raises(UsageError, match="mixture prior cannot be learnt"):
        learn_scale(make_net(prior=pt.ScaleMixture()))
    with pytest.raises(UsageError, match="shrink to zero"):
        learn_scale(make_net(posterior="point"))


def test_expected_norm_against_closed_forms():
    """A centred group of equal sds: sd sqrt(2) Gamma((d+1)/2) / Gamma(d/2); one weight: the folded normal; sd 0."""
    for d in (2, 3, 10, 300):
        sd = torch.full((1, d), 0.7).double()
        exact = 0.7 * math.sqrt(2) * math.exp(math.lgamma((d + 1) / 2) - math.lgamma(d / 2))
        assert expected_norm(torch.zeros(1, d).double(), sd).item() == pytest.approx(exact, rel=1e-6)
    mean, sd = randn(50, 1), randn(50, 1, seed=1).abs()
    torch.testing.assert_close(expected_norm(mean, sd), expected_abs(mean, sd).squeeze(-1), rtol=1e-5, atol=1e-6)
    mean = randn(5, 4)
    torch.testing.assert_close(expected_norm(mean, 0 * mean), mean.norm(dim=-1), rtol=1e-6, atol=0)
    torch.testing.assert_close(expected_abs(mean, 0 * mean), mean.abs())


def test_mean_field_kl_to_a_spike_far_narrower_than_q():
    """Nodes of a Gauss-Hermite rule would step over it: 0.7 of the mass at a spike a thousand times narrower."""
    q = MeanField(torch.zeros(1).double(), rho_of(torch.ones(1).double()))
    prior = FlatMixture(torch.ones(1).double(), torch.full((1,), 1e-3, dtype=torch.float64), pi=0.3)
    w = torch.linspace(-0.02, 0.02, 400_001, dtype=torch.float64)
    spike = torch.exp(-0.5 * w**2) / math.sqrt(2 * math.pi)
    gain = prior.log_density_by_weight(w.unsqueeze(-1))[:, 0] - (math.log(0.3) + Normal(0.0, 1.0).log_prob(w))
    brute = -math.log(0.3) - torch.trapezoid(spike * gain, w)
    assert kl_divergence(q, prior).item() == pytest.approx(brute.item(), abs=1e-7)


def monte_carlo(prior, mean, sd, draws=400_000):
    """E log prior (N,) and its standard error."""
    values = prior.log_density_by_weight(mean + sd * randn(draws, len(mean)))
    return values.mean(0), values.std(0) / math.sqrt(draws)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("mean", "sd"), [(0.1496, 1e-4), (0.15, 0.1), (1e4, 1e4), (0.0, 1e6), (3.0, 1e-8)])
@pytest.mark.parametrize("df", [2.1, 4.0])
def test_expectation_of_student_t_far_out_in_its_tails(df, mean, sd, dtype):
    prior = FlatStudentT(torch.tensor([1e-6, 1.0], dtype=torch.float64), df=df)
    at = torch.full((2,), mean, dtype=torch.float64), torch.full((2,), sd, dtype=torch.float64)
    expected, error = monte_carlo(prior, *at)
    found = prior.to(dtype).expected_log_density(*(v.to(dtype) for v in at)).double()
    assert ((found - expected).abs() < 5 * error + 1e-4 * expected.abs()).all()


def test_slope_of_student_t_far_out_is_that_of_a_power():
    prior = FlatStudentT(torch.tensor([1e-6], dtype=torch.float64))
    mean = torch.tensor([0.15], dtype=torch.float64, requires_grad=True)
    prior.expected_log_density(mean, torch.tensor([1e-4], dtype=torch.float64)).sum().backward()
    assert mean.grad.item() == pytest.approx(-5 / 0.15, rel=1e-4)  # -(df + 1) / w


@pytest.mark.parametrize(("sd1", "sd2"), [(0.1, 1.0), (1.0, 0.1)])
def test_a_mixture_of_one_component_is_the_gaussian(sd1, sd2):
    q = MeanField(MEAN, rho_of(SD))
    mixture = FlatMixture(sd1 * torch.ones(6, dtype=torch.float64), sd2 * torch.ones(6, dtype=torch.float64), pi=1.0)
    gaussian = FlatGaussian(sd1 * torch.ones(6, dtype=torch.float64))
    torch.testing.assert_close(kl_divergence(q, mixture), kl_divergence(q, gaussian))


def test_expected_norm_of_large_groups_in_single_precision():
    mean, sd = 0.01 * randn(3, 5000), torch.full((3, 5000), 0.007, dtype=torch.float64)
    torch.testing.assert_close(
        expected_norm(mean.float(), sd.float()).double(), expected_norm(mean, sd), rtol=1e-6, atol=0
    )


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


def test_patterns_without_weights_say_why():
    model = torch.nn.Linear(2, 1)
    with pytest.raises(UsageError, match=r"'zz\.\*' matches none of the weights; their names are weight, bias"):
        pt.bayesian(model, prior=pt.Parts({"zz.*": pt.Laplace(), "*": pt.Gaussian()}))
    with pytest.raises(UsageError, match=r"'bias' matches only what an earlier pattern took \(bias\)"):
        pt.bayesian(model, prior=pt.Parts({"*": pt.Gaussian(), "bias": pt.Laplace()}))
