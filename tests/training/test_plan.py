"""Settings that would have no effect are refused, in Python and on the command line; what has one is not."""

from __future__ import annotations

import pytest
from posterity.training.idle import refuse_idle

import posterity as pt
from posterity.core.errors import UsageError
from posterity.experiments import Run
from posterity.training import Settings

IDLE = [
    ({"penalty_factor": 2.0}, "mean_field", r"penalty_factor \(2.0\) goes with a penalty"),
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
def test_what_has_no_effect_is_refused(make_net, small, tmp_path, settings, posterior, message):
    with pytest.raises(UsageError, match=message):
        pt.fit(make_net(posterior=posterior), small, epochs=4, out=tmp_path / "run", **settings)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("settings", "posterior"),
    [
        ({"optimizer": "sgld", "average_start": 0.2, "average_every": 3}, "point"),
        ({"optimizer": "psgld", "average_every": 3}, "point"),
        ({"average": "samples", "average_every": 3, "average_start": 0.1}, "mean_field"),
        ({"average": "swa", "average_restart": True}, "point"),
        ({"average": "hwa", "covariance": "low_rank", "average_rank": 3}, "mean_field"),
        ({"lr_sd": 0.1, "optimizer_sd": "sgd", "alternate": 1}, "low_rank"),
        ({"schedule_options": {"warmup": 0.1}, "schedule_sd_options": {"warmup": 0.1}}, "point"),
        ({"optimizer": "ivon", "gradient": "score", "samples": 2, "baseline": "leave_one_out"}, "mean_field"),
        ({"penalty": "l1", "penalty_factor": 2.0}, "mean_field"),
    ],
)
def test_what_has_one_is_not(make_net, settings, posterior):
    refuse_idle(make_net(posterior=posterior), Settings.of(**settings))


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
        (("--rank", 3), "rank (3) goes with posterior 'low_rank', not with 'mean_field'"),
        (("--posterior", "point", "--rho", -3), "rho (-3.0) goes with a posterior that has standard deviations"),
        (("--posterior", "point", "--estimator", "local"), "estimator"),
        (("--noise", "foo"), "noise ('foo') goes with regression, not with classification"),
        (("--average", "swa", "--covariance", "low_rank"), "covariance"),
    ],
)  # fmt: skip
def test_on_the_command_line(train, tmp_path, options, part):
    done = train("run", *options)
    assert (done.code, done.out) == (2, "")
    assert part in done.err
    assert done.err.count("\n") == 1
    assert not (tmp_path / "run").exists()


def test_a_run_from_before_is_resumed(train, cli, tmp_path):
    """A directory whose config has settings without effect was fine when it was begun."""
    assert train("run", epochs=2).code == 0
    path = tmp_path / "run" / "config.toml"
    Run.read(path).model_copy(update={"rank": 3, "noise": "input", "temperature_warmup_shape": "cosine"}).write(path)
    assert cli("train", "--out", "run", "--resume", "--quiet").code == 0
    assert cli("evaluate", "run", "--samples", 2).code == 0
