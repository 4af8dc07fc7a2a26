"""Priors by name and plain values."""

import math

import pytest
import torch
from torch import nn

import posterity as pt
from posterity.core.errors import UnknownNameError, UsageError
from posterity.core.layout import Layout
from posterity.priors import PRIORS, SHAPES, build_prior, check_prior_options, prior_options

LAYOUT = Layout.of(nn.Sequential(nn.Linear(8, 3), nn.Linear(3, 2)))
WEIGHTS = torch.linspace(-1, 1, LAYOUT.num_weights)


def bind(*args, **options):
    return build_prior(*args, **options).bind(LAYOUT, WEIGHTS)


def test_options_are_those_of_the_signatures():
    assert prior_options("gaussian") == prior_options("laplace") == {"slope": 0.0}
    assert prior_options("student_t") == {"df": 4.0, "slope": 0.0}
    assert prior_options("mixture") == {"pi": 0.5, "sd2": None, "ratio": None, "slope": 0.0}
    assert set(SHAPES) <= set(PRIORS)


@pytest.mark.parametrize("name", SHAPES)
def test_every_shape_has_its_name_scale_and_mean(name):
    prior = bind(name, scale="kaiming")
    assert prior.kind == name
    assert prior.centre is None
    assert torch.equal(bind(name, scale=0.3, mean="pretrained").mean, WEIGHTS)
    assert bind(name, mean=-0.5).mean.unique().item() == -0.5
    wide = {"gaussian": prior.sd, "mixture": getattr(prior, "sd1", None)}.get(name, prior.sd)
    assert wide[0].item() == pytest.approx(0.5)  # Kaiming: sqrt(2 / 8)
    leaky = bind(name, scale="kaiming", slope=math.sqrt(3))
    assert getattr(leaky, "sd1", leaky.sd)[0].item() == pytest.approx(0.25)  # sqrt(2 / (4 * 8))


def test_the_same_as_the_rules_themselves():
    for rule, prior in (
        (pt.Gaussian("glorot"), bind("gaussian", scale="glorot")),
        (pt.Laplace(0.1), bind("laplace", scale=0.1)),
        (pt.StudentT("narrow", df=7), bind("student_t", df=7)),
        (pt.ScaleMixture(), bind("mixture")),
        (pt.ScaleMixture(0.25, "xavier", 0.01), bind("mixture", scale="xavier", pi=0.25, sd2=0.01)),
        (pt.ScaleMixture(0.5, 1.0, "glorot"), bind("mixture", scale=1.0, sd2="glorot")),
    ):
        bound = rule.bind(LAYOUT, WEIGHTS)
        assert type(bound) is type(prior)
        assert torch.equal(prior.log_density_by_weight(WEIGHTS), bound.log_density_by_weight(WEIGHTS))


def test_a_spike_by_its_ratio_to_the_slab():
    prior = bind("mixture", scale="kaiming", ratio=20)
    torch.testing.assert_close(prior.sd2, prior.sd1 / 20)
    assert len(prior.sd1.unique()) == 2  # by layer


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("gausian", {}, "Did you mean 'gaussian'"),
        ("student_t", {"d": 3}, "unknown option of prior 'student_t' 'd'.*Known: df, slope"),
        ("student_t", {"df": "three"}, "option df of prior 'student_t' takes a number such as 4.0, not 'three'"),
        ("student_t", {"df": 2.0}, "df above 2"),
        ("gaussian", {"pi": 0.5}, "Known: slope"),
        ("gaussian", {"slope": 0.1, "scale": 0.3}, r"slope \(0.1\) goes with prior scale 'kaiming', not with 0.3"),
        ("gaussian", {"scale": "kaimin"}, "Did you mean 'kaiming'"),
        ("gaussian", {"mean": "trained"}, "a number or 'pretrained', not 'trained'"),
        ("mixture", {"sd2": 0.1, "ratio": 3}, "not both"),
        ("mixture", {"ratio": 0.5}, "at least 1, not 0.5"),
        ("mixture", {"pi": 2.0}, "pi is a probability"),
    ],
)
def test_mistakes(name, options, message):
    with pytest.raises(UsageError, match=message):
        build_prior(name, **options)


def test_options_alone():
    check_prior_options("mixture", {"pi": 0.1, "sd2": "glorot"})
    with pytest.raises(UnknownNameError, match=r"'ratoi'\. Did you mean 'ratio'"):
        check_prior_options("mixture", {"ratoi": 2})
