"""Parts: priors by name, each of its own weights."""

import pytest
import torch
from torch import nn

import posterity as pt
from posterity.core.errors import UsageError
from posterity.core.layout import Layout
from posterity.priors import FlatGaussian, FlatParts

MODEL = nn.Sequential(nn.Linear(8, 3), nn.Linear(3, 2))
LAYOUT = Layout.of(MODEL)
N = LAYOUT.num_weights


def randn(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


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


def test_patterns_without_weights_say_why():
    model = torch.nn.Linear(2, 1)
    with pytest.raises(UsageError, match=r"'zz\.\*' matches none of the weights; their names are weight, bias"):
        pt.bayesian(model, prior=pt.Parts({"zz.*": pt.Laplace(), "*": pt.Gaussian()}))
    with pytest.raises(UsageError, match=r"'bias' matches only what an earlier pattern took \(bias\)"):
        pt.bayesian(model, prior=pt.Parts({"*": pt.Gaussian(), "bias": pt.Laplace()}))
