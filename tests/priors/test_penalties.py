"""Penalties, their factors, and the priors they stand for."""

import copy
import math

import numpy as np
import pytest
import torch
from scipy import integrate
from torch import nn

import posterity as pt
from posterity.core.errors import UsageError
from posterity.core.layout import Layout
from posterity.objectives import kl_divergence
from posterity.posteriors import MeanField, Point
from posterity.priors import PENALTIES, FromPenalty, penalty_factor

MODEL = nn.Sequential(nn.Conv2d(3, 4, 2), nn.Flatten(), nn.Linear(5, 2))
LAYOUT = Layout.of(MODEL)


def direct(name, views):
    """Source 004's penalties of each weight tensor, written out."""
    rows = lambda w: w.reshape(len(w), -1)  # noqa: E731
    columns = lambda w: w.transpose(0, 1).reshape(w.shape[1], -1) if w.dim() > 1 else rows(w)  # noqa: E731
    return {
        "l2": lambda w: w.square().sum(),
        "l1": lambda w: w.abs().sum(),
        "group_lasso_rows": lambda w: rows(w).norm(dim=1).sum(),
        "group_lasso_columns": lambda w: columns(w).norm(dim=1).sum(),
    }[name], views


FACTORS = {
    # Inputs: 12 of the convolution, 5 of the linear layer; groups: filters 12, channels 16, rows 5, columns 2.
    "l2": {"0.weight": 6, "0.bias": 6, "2.weight": 2.5, "2.bias": 2.5},
    "l1": {"0.weight": math.sqrt(24), "0.bias": math.sqrt(24), "2.weight": math.sqrt(10), "2.bias": math.sqrt(10)},
    "group_lasso_rows": {
        "0.weight": math.sqrt(13 * 12), "0.bias": math.sqrt(24), "2.weight": math.sqrt(30), "2.bias": math.sqrt(10)
    },
    "group_lasso_columns": {
        "0.weight": math.sqrt(17 * 12), "0.bias": math.sqrt(24), "2.weight": math.sqrt(15), "2.bias": math.sqrt(10)
    },
}  # fmt: skip


@pytest.mark.parametrize("name", PENALTIES)
def test_a_point_pays_the_complete_penalty(name):
    """sum_l lambda_l r(w_l), by hand, and its gradient by finite differences."""
    weights = torch.randn(LAYOUT.num_weights, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    penalty, views = direct(name, LAYOUT.views(weights))
    expected = sum(FACTORS[name][n] * penalty(w) for n, w in views.items())
    prior = FromPenalty(name, 2.0).bind(LAYOUT, weights)
    torch.testing.assert_close(kl_divergence(Point(weights), prior), 2 * expected)
    assert torch.autograd.gradcheck(lambda w: prior.energy_by_weight(w).sum(), weights.requires_grad_())


@pytest.mark.parametrize("name", PENALTIES)
def test_each_weight_has_the_variance_of_its_initialisation(name):
    prior = FromPenalty(name).bind(LAYOUT, torch.zeros(LAYOUT.num_weights).double())
    sds = LAYOUT.views(prior.sd)
    for entry in LAYOUT.entries:
        torch.testing.assert_close(sds[entry.name], torch.full_like(sds[entry.name], entry.fan_in**-0.5))


@pytest.mark.parametrize("axis", ["rows", "columns"])
def test_group_density_integrates_to_one_in_two_dimensions(axis):
    layout = Layout.of(nn.Linear(2, 1, bias=False) if axis == "rows" else nn.Linear(1, 2, bias=False))
    prior = FromPenalty(f"group_lasso_{axis}").bind(layout, torch.zeros(2).double())
    x = torch.linspace(-20, 20, 2001, dtype=torch.float64)
    mass = prior.log_density(torch.cartesian_prod(x, x)).exp().sum() * (x[1] - x[0]) ** 2
    assert mass.item() == pytest.approx(1, abs=1e-3)
    assert not prior.factorised


def test_l2_and_l1_are_the_gaussian_and_the_laplace_prior():
    weights = torch.randn(3, LAYOUT.num_weights, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    q = MeanField(weights[0], weights[1] - 2)
    for name, rule in {"l2": pt.Gaussian("glorot"), "l1": pt.Laplace("glorot")}.items():
        penalised, plain = (r.bind(LAYOUT, weights[0]) for r in (FromPenalty(name), rule))
        torch.testing.assert_close(penalised.log_density(weights), plain.log_density(weights))
        torch.testing.assert_close(kl_divergence(q, penalised), kl_divergence(q, plain))
        torch.testing.assert_close(penalised.sample(weights), plain.sample(weights))


@pytest.mark.parametrize("n", [1, 7, 400, 1e5])
def test_factors_by_numerical_integration(n):
    assert penalty_factor("l2", n) == n / 2
    assert penalty_factor(np.square, n) == pytest.approx(n / 2, rel=1e-9)
    assert penalty_factor("l1", n) == pytest.approx(math.sqrt(2 * n))
    assert penalty_factor(np.abs, n) == pytest.approx(math.sqrt(2 * n), rel=1e-9)
    for d in (1, 2, 9, 500):
        assert penalty_factor("group_lasso_rows", n, d) == pytest.approx(math.sqrt((d + 1) * n))
        assert penalty_factor(np.abs, n, d) == pytest.approx(math.sqrt((d + 1) * n), rel=1e-9)


def test_factors_of_other_penalties():
    # log(1 + w^2): a Student-t with variance 1 / (2 lambda - 3). Groups of d with ||w||^2: Gaussian whatever d.
    assert penalty_factor(lambda w: np.log1p(w**2), 10) == pytest.approx(6.5, rel=1e-6)
    assert penalty_factor(np.square, 10, 7) == pytest.approx(5, rel=1e-9)
    assert penalty_factor(lambda w: (w - 3) ** 2, 10) == pytest.approx(5, rel=1e-6)
    quartic = penalty_factor(lambda w: w**4, 5)
    weight = lambda w, k: w**k * math.exp(-quartic * w**4)  # noqa: E731
    second, mass = (integrate.quad(weight, -9, 9, args=(k,), points=[0])[0] for k in (2, 0))
    assert second / mass == pytest.approx(1 / 5, rel=1e-7)


def test_factors_that_do_not_exist():
    with pytest.raises(UsageError, match="no factor"):
        penalty_factor(lambda w: np.tanh(w**2), 10)
    with pytest.raises(UsageError, match="each weight by itself"):
        penalty_factor("l1", 10, 3)
    with pytest.raises(UsageError, match="positive number of inputs"):
        penalty_factor("l1", 0)


CONVOLUTIONS = {
    "plain": nn.Conv2d(4, 6, 3),
    "grouped": nn.Conv2d(4, 6, 3, groups=2),
    "depthwise": nn.Conv1d(4, 8, 3, groups=4),
    "transposed": nn.ConvTranspose2d(2, 3, 2),
    "grouped transposed": nn.ConvTranspose2d(4, 6, 3, groups=2),
}


@pytest.mark.parametrize("kind", CONVOLUTIONS)
@pytest.mark.parametrize("name", ["group_lasso_rows", "group_lasso_columns"])
def test_groups_of_convolutions_by_what_reaches_what(kind, name):
    """Which weights feed an output, or are fed by an input, is seen in the gradients of the module itself."""
    module = copy.deepcopy(CONVOLUTIONS[kind]).double()
    channels = module.out_channels if name == "group_lasso_rows" else module.in_channels
    spatial = [6] * (module.weight.dim() - 2)
    expected = []
    for channel in range(channels):
        x = torch.rand(1, module.in_channels, *spatial, dtype=torch.float64) + 0.1
        if name == "group_lasso_columns":
            x[:, [c for c in range(module.in_channels) if c != channel]] = 0
        out = module(x)
        reached = out[:, channel] if name == "group_lasso_rows" else out
        grad = torch.autograd.grad(reached.sum(), module.weight)[0]
        expected.append(module.weight.detach()[grad != 0].norm())
    layout = Layout.of(module, "weight")
    weights = layout.flatten({"weight": module.weight.detach()})
    groups = PENALTIES[name].groups(layout.entries[0], weights)
    torch.testing.assert_close(groups.norm(dim=-1).sort().values, torch.stack(expected).sort().values)
    assert PENALTIES[name].group_size(layout.entries[0]) == groups.shape[-1]
    spread = PENALTIES[name].spread(layout.entries[0], groups.norm(dim=-1))
    each = PENALTIES[name].groups(layout.entries[0], spread)
    torch.testing.assert_close(each, (groups.norm(dim=-1, keepdim=True) / groups.shape[-1]).expand_as(groups))


def test_a_penalty_on_grouped_convolutions_is_saved(tmp_path):
    net = pt.bayesian(nn.ConvTranspose2d(4, 6, 3, groups=2), prior=FromPenalty("group_lasso_columns"))
    pt.save(net, tmp_path / "net.safetensors")
    again = pt.load(tmp_path / "net.safetensors", nn.ConvTranspose2d(4, 6, 3, groups=2))
    torch.testing.assert_close(kl_divergence(again.posterior, again.prior), kl_divergence(net.posterior, net.prior))


def test_free_factors_by_layer_by_hand():
    """lambda * sum_l lambda_l r(w_l): a free lambda_l where a pattern matches, theory's elsewhere."""
    weights = torch.randn(LAYOUT.num_weights, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    views = LAYOUT.views(weights)
    prior = FromPenalty("l1", 2.0, {"0.bias": 0.5, "0.*": 3.0}).bind(LAYOUT, weights)
    factors = {"0.weight": 3.0, "0.bias": 0.5, "2.weight": math.sqrt(10), "2.bias": math.sqrt(10)}
    torch.testing.assert_close(prior.factors.tolist(), [2 * factors[name] for name in LAYOUT.names])
    expected = 2 * sum(factors[name] * w.abs().sum() for name, w in views.items())
    torch.testing.assert_close(kl_divergence(Point(weights), prior), expected)
    torch.testing.assert_close(LAYOUT.views(prior.sd)["0.weight"][0, 0, 0, 0].item(), math.sqrt(2) / 6)


def test_free_factors_are_saved(tmp_path):
    net = pt.bayesian(nn.Linear(3, 2), prior=FromPenalty("l2", factors={"*": 0.25}))
    assert net.prior.sd.unique().item() == pytest.approx(math.sqrt(2))
    pt.save(net, tmp_path / "net.safetensors")
    assert torch.equal(pt.load(tmp_path / "net.safetensors", nn.Linear(3, 2)).prior.sd, net.prior.sd)


@pytest.mark.parametrize("name", PENALTIES)
def test_edge_of_chaos_is_the_variance_2_over_n(name):
    prior = FromPenalty(name, variance="edge-of-chaos").bind(LAYOUT, torch.zeros(LAYOUT.num_weights).double())
    torch.testing.assert_close(prior.sd, pt.Gaussian("kaiming").bind(LAYOUT, prior.sd).sd)
    factors = dict(zip(LAYOUT.names, prior.factors.tolist(), strict=True))
    for tensor, glorot in FACTORS[name].items():
        assert factors[tensor] == pytest.approx(glorot / (2 if name == "l2" else math.sqrt(2)))


def test_edge_of_chaos_factors_by_numerical_integration():
    assert penalty_factor("l2", 10, variance="edge-of-chaos") == 2.5
    assert penalty_factor(np.square, 10, variance="edge-of-chaos") == pytest.approx(2.5)
    assert penalty_factor("group_lasso_rows", 10, 3, variance="edge-of-chaos") == pytest.approx(math.sqrt(4 * 5))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"variance": "edge"}, "unknown variance of the initialisation 'edge'"),
        ({"factors": {"0.*": 0.0}}, r"the factor of '0.\*' must be a positive number, not 0.0"),
        ({"factors": {"9.*": 1.0}}, r"the pattern '9.\*' matches none of the weights; their names are 0.weight"),
        ({"factors": {"*": 1.0, "0.*": 1.0}}, r"'0.\*' matches only what an earlier pattern took"),
    ],
)
def test_wrong_factors_and_variances(options, message):
    with pytest.raises(UsageError, match=message):
        FromPenalty("l1", **options).bind(LAYOUT, torch.zeros(LAYOUT.num_weights))
