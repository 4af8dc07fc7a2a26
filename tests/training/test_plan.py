"""The plan refuses what cannot be trained and what would have no effect, and changes nothing; what has one passes."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import posterity as pt
from posterity.core.errors import DataError, PosterityError, UsageError
from posterity.training import Settings, plan


def everything(net):
    """All that a training changes, copied, and the objects that it puts into the network."""
    values = {
        "state": {name: tensor.clone() for name, tensor in net.state_dict().items()},
        "gradients": [p.grad is None for p in net.parameters()],
        "noise": net.noise_source.state(),
        "training": [module.training for module in net.modules()],
        "several uses": set(net.several_uses),
        "generator": torch.get_rng_state(),
    }
    return values, (net.prior, net.likelihood, net.posterior, net.model, net.noise_source)


@pytest.fixture
def refused(same, tmp_path):
    """`fit` is refused, and network, generators and disk are as they were."""

    def check(net, *data, message=None, error=UsageError, **settings):
        net.eval()
        values, objects = everything(net)
        with pytest.raises(error, match=message):
            pt.fit(net, *data, out=tmp_path / "run", **{"epochs": 4, **settings})
        after, theirs = everything(net)
        assert same(after, values)
        assert all(a is b for a, b in zip(objects, theirs, strict=True))
        assert not (tmp_path / "run").exists()

    return check


IDLE = [
    ({"penalty_factor": 2.0}, "mean_field", r"penalty_factor \(2.0\) goes with a penalty"),
    ({"penalty_factors": {"*": 0.1}}, "mean_field", "penalty_factors .* goes with a penalty"),
    ({"penalty_variance": "edge-of-chaos"}, "mean_field", r"penalty_variance \('edge-of-chaos'\) goes with a penalty"),
    (
        {"tau": 2.0, "temperature": 1.0},
        "mean_field",
        r"tau \(2.0\) goes with a temperature by rule \(.*\), not with 1.0",
    ),
    ({"temperature_warmup_shape": "cosine"}, "mean_field", "goes with a warm-up"),
    ({"covariance": "snapshot"}, "mean_field", r"covariance \('snapshot'\) goes with an average"),
    ({"average_every": 3}, "mean_field", "goes with an average: give average 'swa', 'hwa' or 'samples'"),
    ({"average_start": 0.2}, "mean_field", "goes with an average"),
    ({"average_restart": True}, "mean_field", "goes with an average"),
    ({"average_rank": 3}, "mean_field", "goes with an average"),
    ({"average": "samples", "average_restart": True}, "mean_field", "goes with average 'swa' or 'hwa'"),
    ({"average": "samples", "covariance": "snapshot"}, "mean_field", "goes with average 'hwa', not with 'samples'"),
    ({"average": "swa", "covariance": "low_rank"}, "mean_field", "goes with average 'hwa', not with 'swa'"),
    ({"average": "swa", "average_rank": 4}, "mean_field", "goes with average 'hwa', not with 'swa'"),
    ({"average": "hwa", "average_rank": 4}, "mean_field", "goes with covariance 'low_rank', not with 'total'"),
    ({"optimizer": "sgld", "average_restart": True}, "point", "samples are kept as they are"),
    (
        {"optimizer": "sgld", "optimizer_sd_options": {"temperature": 2.0}},
        "point",
        "not train by themselves",
    ),
    ({"lr_sd": 0.1}, "point", r"lr_sd \(0.1\) is for standard deviations, which a point posterior does not have"),
    ({"optimizer_sd": "sgd"}, "point", "standard deviations"),
    ({"alternate": 2}, "point", "standard deviations"),
    ({"schedule_sd_options": {"floor": 0.1}}, "point", "schedule_sd_options .* standard deviations"),
    ({"estimator": "local"}, "point", r"estimator \('local'\) .* a point posterior has but one"),
    ({"optimizer": "ivon", "gradient": "path"}, "mean_field", r"gradient \('path'\) has no effect .* 'ivon'"),
]


@pytest.mark.parametrize(("settings", "posterior", "message"), IDLE)
def test_what_has_no_effect_is_refused(refused, make_net, small, settings, posterior, message):
    refused(make_net(posterior=posterior, norm=True, dropout=True), small, message=message, **settings)


HESS = {"hess_init": 0.3}
LATE = {  # by what would have been changed before
    "rho": ({"optimizer": "ivon", "optimizer_options": {**HESS, "weight_decay": 0.1}}, {}, "'weight_decay'"),
    "rho, by an average": (
        {"optimizer": "ivon", "optimizer_options": HESS, "average": "hwa", "average_restart": True},
        {},
        "its curvature",
    ),
    "likelihood": ({"schedule_options": {"nosuch": 1}}, {}, "'nosuch'"),
    "likelihood, by an average": ({"average": "swa", "average_every": 10**6}, {}, "at least 1 snapshot"),
    "prior": ({"penalty": "l1", "optimizer_options": {"betas": (2.0, 0.9)}}, {}, "beta"),
    "prior, by a rule": ({"penalty": "l1", "temperature": "per-neuron"}, {"norm": True}, "one hidden layer"),
    "statistics": ({"augmentation": "crop", "optimizer": "sgld"}, {"norm": True}, "posterior 'point'"),
}


@pytest.mark.parametrize("case", LATE)
def test_what_is_refused_last_changes_nothing_either(refused, make_net, small, case):
    settings, options, message = LATE[case]
    refused(make_net(**options), small, message=message, **settings)


@pytest.mark.parametrize("settings", [{}, {"optimizer": "ivon", "optimizer_options": {"hess_init": 0.3}}])
def test_a_plan_that_is_granted_changes_nothing(make_net, small, same, settings):
    net = make_net(norm=True, dropout=True)
    values, objects = everything(net)
    for penalty in (None, *(["l1"] if not settings else [])):
        plan(net, small, small, Settings(penalty=penalty, **settings))
        after, theirs = everything(net)
        assert same(after, values)
        assert all(a is b for a, b in zip(objects, theirs, strict=True))


def test_a_used_directory_is_refused_before_the_network_changes(same, make_net, small, tmp_path):
    (tmp_path / "thesis.txt").write_text("words")
    net = make_net()
    values, objects = everything(net)
    options = {"optimizer": "ivon", "optimizer_options": {"hess_init": 0.3}}
    for more in ({}, {"resume": True, "overwrite": True}):
        with pytest.raises(PosterityError):
            pt.fit(net, small, epochs=1, out=tmp_path, **options, **more)
    after, theirs = everything(net)
    assert same(after, values)
    assert all(a is b for a, b in zip(objects, theirs, strict=True))


@pytest.mark.parametrize(
    ("settings", "posterior"),
    [
        ({"optimizer": "sgld", "average_start": 0.2, "average_every": 3}, "point"),
        ({"optimizer": "psgld", "average_every": 3}, "point"),
        ({"average": "samples", "average_every": 3, "average_start": 0.1}, "mean_field"),
        ({"average": "swa", "average_restart": True}, "point"),
        ({"average": "hwa", "covariance": "low_rank", "average_rank": 3}, "mean_field"),
        ({"lr_sd": 0.1, "optimizer_sd": "sgd", "alternate": 1}, "low_rank"),
        ({"warmup": 0.1, "schedule_options": {"floor": 0.1}}, "point"),
        ({"optimizer": "ivon", "gradient": "score", "samples": 2, "baseline": "leave_one_out"}, "mean_field"),
        ({"penalty": "l1", "penalty_factor": 2.0}, "mean_field"),
    ],
)
def test_what_has_one_is_not(make_net, small, settings, posterior):
    assert plan(make_net(posterior=posterior), small, None, Settings.of(**settings)).groups


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("temperature", -0.1),
        ("temperature", math.nan),
        ("temperature", math.inf),
        ("epochs", 0),
        ("batch_size", 0),
        ("samples", 0),
        ("val_samples", 0),
        ("clip", 0.0),
        ("patience", -1),
        ("kl_decay", -1.0),
        ("kl_decay", math.nan),
        ("lr", 0.0),
        ("lr", math.nan),
        ("optimizer", "adm"),
        ("optimizer_options", {"nosuch": 1}),
        ("schedule", "cosin"),
        ("schedule_options", {"nosuch": 1}),
        ("nosuch", 1),
    ],
)
def test_wrong_settings_are_refused_before_anything_is_written(refused, make_net, small, setting, value):
    refused(make_net(), small, small, **{"epochs": 1, setting: value})


def test_unknown_settings_get_a_suggestion(make_net, small):
    with pytest.raises(UsageError, match="Did you mean 'epochs'"):
        pt.fit(make_net(), small, epoch=1)


def test_data_that_does_not_fit_is_refused(refused, make_net, small):
    refused(make_net(outputs=7), small, message=r"7.*10", error=DataError)
    few = (np.zeros((4, 3)), np.array([0, 1, 2, 3]))
    refused(make_net(), few, message="shape", error=DataError)
    refused(make_net().double(), small, message="float32", error=DataError)
    three = pt.Dataset(small.x, small.y % 3, "classification", 3)
    refused(make_net(), small, three, message="classes", error=DataError)
    flat = pt.Dataset(small.x.flatten(1), small.y, "classification", 10)
    refused(make_net(), small, flat, message=r"inputs of shape \(64,\).*\(1, 8, 8\)", error=DataError)
    refused(make_net(), [small], message="a pair", error=DataError)


def test_other_things_than_networks_are_refused(make_net, small):
    with pytest.raises(UsageError, match=r"bayesian\(Sequential\(...\)\)"):
        pt.fit(make_net().model, small, epochs=1)
    sampled = pt.fit(make_net(posterior="point"), small, epochs=2, optimizer="sgld").averaged
    with pytest.raises(UsageError, match="'samples' has nothing to train"):
        pt.fit(sampled, small, epochs=1)


def test_patience_without_validation_is_refused(refused, make_net, small):
    refused(make_net(), small, patience=2, message="validation")


def test_augmentation_of_what_is_no_image_is_refused(refused, train, curve, curve_net, tmp_path):
    for name in ("crop", "flip", "crop-flip"):
        refused(curve_net(), curve, augmentation=name, message=r"is for images .*not for inputs of shape \(1,\)")
    done = train("run", "--dataset", "gap", "--augmentation", "crop")
    assert (done.code, "is for images" in done.err) == (2, True)
    assert not (tmp_path / "run").exists()


def test_float_labels_are_told_from_classes(refused, make_net, small):
    refused(make_net(), (small.x, small.y.float()), message="float targets mean regression: for classes give integers")


def test_a_penalty_replaces_no_prior_that_was_chosen(make_net, small):
    for prior in (pt.Laplace(), pt.Gaussian(0.3), pt.Gaussian(mean="pretrained")):
        with pytest.raises(UsageError, match=r"penalty 'l1' would replace the (laplace|gaussian) prior"):
            pt.fit(make_net(prior=prior), small, epochs=1, penalty="l1")
    net = make_net(prior=pt.Gaussian())
    for penalty in ("l1", "l2"):  # the second takes the place of the first
        pt.fit(net, small, epochs=1, penalty=penalty)
        assert net.prior.penalty.name == penalty


@pytest.mark.parametrize(
    ("options", "part"),
    [
        (("--temperature-warmup-shape", "cosine"), "temperature_warmup_shape ('cosine') goes with a warm-up"),
        (("--temperature-warmup-shape", "cosin"), "Did you mean 'cosine'?"),
        (("--penalty-factor", 2), "penalty_factor (2.0) goes with a penalty"),
        (("--posterior-options", "rank=3"), "posterior"),
        (("--posterior", "point", "--rho", -3), "rho (-3.0) goes with a posterior that has standard deviations"),
        (("--posterior", "point", "--estimator", "local"), "estimator"),
        (("--noise", 0.3), "noise (0.3) goes with regression, not with classification"),
        (("--noise", "foo"), "unknown noise (a number, or the name of a rule) 'foo'"),
        (("--average", "swa", "--covariance", "low_rank"), "covariance"),
    ],
)  # fmt: skip
def test_on_the_command_line(train, tmp_path, options, part):
    done = train("run", *options)
    assert (done.code, done.out) == (2, "")
    assert part in done.err
    assert done.err.count("\n") == 1
    assert not (tmp_path / "run").exists()
