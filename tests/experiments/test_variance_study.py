"""The gradient's variance of a run, as it begins or as it was trained."""

import pytest

from posterity.core.errors import UsageError
from posterity.experiments import Run, execute
from posterity.experiments.variance_study import study_variance

TINY = {"dataset": "digits", "model": "mlp", "hidden": (8,), "epochs": 1, "batch_size": 20}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "run"
    execute(Run(**TINY, estimator="local", gradient="path"), folder, samples=2)
    return folder


def test_all_kinds_unless_one_is_given():
    study = study_variance(TINY, draws=2)
    assert (study.rows, study.draws) == (20, 2)
    assert study.title == "mlp on digits, batch of 20, 2 draws"
    assert {r.estimator for r in study.results} == {"sample", "local", "flipout"}
    assert all(r.variance["mean"] > 0 for r in study.results)
    one = study_variance({**TINY, "estimator": "local", "gradient": "path"}, draws=2)
    assert [(r.estimator, r.gradient) for r in one.results] == [("local", "path")]


def test_it_is_reproducible_and_follows_the_seed():
    given = {**TINY, "estimator": "sample", "gradient": "total"}
    one, again, other = (study_variance({**given, "seed": seed}, draws=3).results[0].variance for seed in (0, 0, 1))
    assert one == again != other


def test_of_a_trained_run_only_some_things_change(trained):
    study = study_variance({"temperature": "per-weight", "batch_size": 7, "gradient": "path"}, draws=2, trained=trained)
    assert study.rows == 7
    assert study.run.temperature == "per-weight"
    assert study.run.hidden == (8,)
    assert {r.gradient for r in study.results} == {"path"}
    with pytest.raises(UsageError, match="leave out --hidden, --lr"):
        study_variance({"hidden": (9,), "seed": 1, "lr": 0.1}, trained=trained)
    begins = study_variance({**TINY, "estimator": "local", "gradient": "path"}, draws=2).results[0]
    moved = study_variance({"estimator": "local", "gradient": "path"}, draws=2, trained=trained).results[0]
    assert moved.variance != begins.variance


def test_a_moving_baseline_is_not_measured():
    with pytest.raises(UsageError, match="only leave_one_out is measured"):
        study_variance({**TINY, "gradient": "score", "baseline": "moving", "samples": 2}, draws=2)
