"""The estimators beyond scikit-learn's own checks: frames, intervals, weights, going on, saving."""

import copy
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import nn

import posterity as pt
from posterity.core.errors import CorruptFileError, DataError, UsageError
from posterity.experiments import Run
from posterity.likelihoods import StudentPrediction

SHORT = {"model": (16,), "epochs": 60, "lr": 0.02, "random_state": 0}
RNG = np.random.default_rng(0)
X = RNG.normal(size=(200, 3))
Y = 100 + 20 * X[:, 0] + 5 * RNG.normal(size=200)
LABELS = np.where(X[:, 0] + X[:, 1] > 0, "yes", np.where(X[:, 2] > 0, "no", "maybe"))
FRAME = pd.DataFrame(
    {
        "size": np.where(X[:, 2] > 1, np.nan, X[:, 0]),
        "town": np.where(X[:, 1] > 1, None, np.where(X[:, 0] > 0, "Ulm", "Bonn")),
        "garden": X[:, 1] > 0,
    }
)


@pytest.fixture(scope="module")
def regressor():
    return pt.BayesianRegressor(**SHORT).fit(X, Y)


@pytest.fixture(scope="module")
def classifier():
    return pt.BayesianClassifier(**SHORT).fit(X, LABELS)


def test_the_parameters_are_those_of_a_run():
    params = pt.BayesianRegressor().get_params()
    given = {
        "dataset",
        "split",
        "target",
        "task",
        "train_rows",
        "test_rows",
        "augmentation",
        "rank_noise",
        "seed",
        "hidden",
    }
    assert params.keys() - {"prediction_samples", "random_state"} == Run.model_fields.keys() - given
    for name in params.keys() & Run.model_fields.keys():
        assert params[name] == (Run.model_fields[name].default or params[name]), name
    assert pt.BayesianClassifier().get_params().keys() == params.keys() - {"noise"}
    assert "rows in a batch (100)" in pt.BayesianRegressor.__doc__


def test_wrong_parameters_are_told():
    with pytest.raises(TypeError, match=r"unknown parameter of BayesianRegressor 'epoch'\. Did you mean 'epochs'"):
        pt.BayesianRegressor(epoch=3)
    for wrong, message in ({"epochs": 0}, "epochs"), ({"model": 3.5}, "model is a network"), ({"model": "mpl"}, "mlp"):
        with pytest.raises(UsageError, match=message):
            pt.BayesianRegressor(**wrong).fit(X, Y)


def test_mean_sd_and_interval():
    regressor = pt.BayesianRegressor(**{**SHORT, "epochs": 500}).fit(X, Y)  # 1000 steps
    mean, sd = regressor.predict(X, return_std=True)
    assert mean.shape == sd.shape == (200,)
    assert np.array_equal(mean, regressor.predict(X))
    assert regressor.score(X, Y) > 0.9
    assert 3 < sd.mean() < 8  # of noise 5
    new = np.random.default_rng(1).normal(size=(500, 3))
    targets = 100 + 20 * new[:, 0] + 5 * np.random.default_rng(2).normal(size=500)
    low, high = regressor.predict_interval(new, level=0.8)
    assert 0.7 < ((low < targets) & (targets < high)).mean() < 0.9
    wide_low, wide_high = regressor.predict_interval(new)
    assert (wide_low < low).all()
    assert (high < wide_high).all()
    distribution = regressor.predict_distribution(new)
    assert isinstance(distribution, pt.RealPrediction)
    assert np.allclose(distribution.interval(0.8)[0][:, 0], low)


def test_far_away_it_is_less_sure(regressor):
    _, sd = regressor.predict(np.array([[0.0, 0, 0], [30, -30, 30]]), return_std=True)
    assert sd[1] > 2 * sd[0]


def test_several_targets():
    both = np.column_stack([Y, -3 * X[:, 1]])
    model = pt.BayesianRegressor(**SHORT).fit(X, both)
    mean, sd = model.predict(X[:5], return_std=True)
    assert mean.shape == sd.shape == (5, 2)
    assert model.score(X, both) > 0.8


def test_probabilities_are_in_the_order_of_the_classes(classifier):
    assert classifier.classes_.tolist() == ["maybe", "no", "yes"]
    probabilities = classifier.predict_proba(X)
    assert np.allclose(probabilities.sum(1), 1, atol=1e-12)
    assert (classifier.predict(X) == classifier.classes_[probabilities.argmax(1)]).all()
    assert classifier.score(X, LABELS) > 0.85
    assert isinstance(classifier.predict_distribution(X), pt.ClassPrediction)


def test_pandas_polars_and_numpy_give_the_same(regressor):
    names = ["a", "b", "c"]
    expected = regressor.predict(X)
    for frame in pd.DataFrame(X, columns=names), pl.DataFrame(X, schema=names):
        model = pt.BayesianRegressor(**SHORT).fit(frame, Y)
        assert model.feature_names_in_.tolist() == names
        assert np.array_equal(model.predict(frame), expected)


@pytest.mark.parametrize("polars", [False, True])
def test_text_truth_values_and_gaps(polars):
    frame = pl.from_pandas(FRAME) if polars else FRAME
    labels = pl.Series(LABELS) if polars else pd.Series(LABELS, dtype="category")
    model = pt.BayesianClassifier(**SHORT).fit(frame, labels)
    assert model.classes_.tolist() == ["maybe", "no", "yes"]
    assert model.columns_.features == [
        "size", "size (missing)", "town=Bonn", "town=Ulm", "town=(missing)", "garden"
    ]  # fmt: skip
    assert model.score(frame, LABELS) > 0.6
    assert model.n_features_in_ == 3


def test_columns_are_checked_when_predicting():
    model = pt.BayesianRegressor(**{**SHORT, "epochs": 1}).fit(FRAME, Y)
    with pytest.raises(ValueError, match="same order"):
        model.predict(FRAME[["town", "size", "garden"]])
    with pytest.raises(ValueError, match="Feature names unseen at fit time:\n- place"):
        model.predict(FRAME.rename(columns={"town": "place"}))
    with pytest.raises(DataError, match="'size' held numbers in training"):
        model.predict(FRAME.assign(size="large"))
    unknown = model.predict(FRAME.assign(town="Kiel"))
    assert np.isfinite(unknown).all()


def test_embedded_categories_are_learnt():
    towns = np.array([f"town {k:02}" for k in range(30)])
    effect = np.random.default_rng(3).normal(size=30)
    which = np.random.default_rng(4).integers(0, 30, 600)
    frame, y = pd.DataFrame({"town": towns[which]}), effect[which]
    model = pt.BayesianRegressor(**{**SHORT, "epochs": 40, "lr": 0.05}).fit(frame, y)
    assert model.columns_.codes == (31,)
    assert model.score(frame, y) > 0.8
    _, sd = model.predict(pd.DataFrame({"town": ["town 03", "elsewhere"]}), return_std=True)
    assert sd[1] > sd[0]


def test_dates_are_refused_with_advice():
    frame = FRAME.assign(sold=pd.to_datetime("2024-01-31"))
    with pytest.raises(DataError, match=r"'sold' holds dates or times.*weekday"):
        pt.BayesianRegressor(**SHORT).fit(frame, Y)


def module(features, outputs):
    return nn.Sequential(nn.Linear(features, 8), nn.Tanh(), nn.Linear(8, outputs))


@pytest.mark.parametrize(
    "model",
    [None, "mlp", (8, 8), [8], module, module(3, 1)],
    ids=["default", "name", "sizes", "list", "function", "module"],
)
def test_any_network(model, tmp_path):
    fitted = pt.BayesianRegressor(model=model, epochs=2, random_state=0).fit(X, Y)
    fitted.save(tmp_path / "model.pt")
    again = {"model": model} if callable(model) else {}
    assert np.array_equal(pt.BayesianRegressor.load(tmp_path / "model.pt", **again).predict(X), fitted.predict(X))


def test_pipelines_cross_validation_and_search():
    short = pt.BayesianRegressor(**SHORT)
    scores = cross_val_score(make_pipeline(StandardScaler(), short), X, Y, cv=2)
    assert (scores > 0.8).all()
    search = GridSearchCV(short, {"epochs": [1, 60]}, cv=2).fit(X, Y)
    assert search.best_params_ == {"epochs": 60}


def test_the_same_seed_is_the_same_network(classifier):
    again = clone(classifier).fit(X, LABELS)
    assert np.array_equal(again.predict_proba(X), classifier.predict_proba(X))
    other = clone(classifier).set_params(random_state=1).fit(X, LABELS)
    assert not np.array_equal(other.predict_proba(X), classifier.predict_proba(X))


def test_all_settings_reach_the_training():
    model = pt.BayesianRegressor(
        model=(8,),
        epochs=4,
        optimizer="adam",
        ensemble=2,
        noise="input",
        average="hwa",
        val_fraction=0.2,
        random_state=0,
    ).fit(X, Y)
    assert model.network_.posterior.kind == "mixture"
    assert len(model.history_) == 8
    assert "val_rmse" in model.history_[-1]
    assert model.predict(X).shape == (200,)


# ---- weights


def test_a_weight_of_0_is_a_row_that_is_not_there():
    weight = np.r_[np.ones(150), np.zeros(50)]
    wrong = np.r_[Y[:150], Y[150:] + 1e6]
    short = {**SHORT, "epochs": 5}
    weighted = pt.BayesianRegressor(**short).fit(X, wrong, sample_weight=weight)
    assert np.array_equal(weighted.predict(X), pt.BayesianRegressor(**short).fit(X[:150], Y[:150]).predict(X))


def test_a_larger_weight_pulls_harder():
    x, y = np.zeros((60, 1)), np.r_[np.zeros(30), np.ones(30)]
    labels, weight = y.astype(int), np.where(y == 1, 3.0, 1.0)
    model = pt.BayesianClassifier(**{**SHORT, "epochs": 60, "lr": 0.05})
    plain = model.fit(x, labels).predict_proba([[0.0]])[0, 1]
    weighted = model.fit(x, labels, sample_weight=weight).predict_proba([[0.0]])[0, 1]
    repeated = model.fit(x.repeat(labels * 2 + 1, axis=0), labels.repeat(labels * 2 + 1)).predict_proba([[0.0]])[0, 1]
    assert abs(plain - 0.5) < 0.03
    assert abs(weighted - 0.75) < 0.04
    assert abs(repeated - weighted) < 0.04


def test_wrong_weights_are_refused():
    for weight in (-np.ones(200), np.zeros(200), np.ones(3)):
        with pytest.raises(ValueError):
            pt.BayesianRegressor(**SHORT).fit(X, Y, sample_weight=weight)


# ---- going on


def test_partial_fit_goes_on_from_where_it_is():
    model = pt.BayesianRegressor(**{**SHORT, "epochs": 2, "lr": 0.05})
    model.partial_fit(X[:100], Y[:100])
    scale, first = model.standardisation_, model.score(X, Y)
    for _ in range(12):
        model.partial_fit(X[100:], Y[100:])
    assert model.standardisation_ is scale
    assert model.calls_ == 13
    assert model.score(X, Y) > max(first, 0.5)


def test_partial_fit_knows_all_classes_from_its_first_call():
    model = pt.BayesianClassifier(**{**SHORT, "epochs": 3})
    one = LABELS == "yes"
    model.partial_fit(X[one], LABELS[one], classes=["yes", "no", "maybe"])
    assert model.predict_proba(X).shape == (200, 3)
    for _ in range(15):
        model.partial_fit(X, LABELS)
    assert model.score(X, LABELS) > 0.7
    with pytest.raises(DataError, match="label 'perhaps' is none of the classes"):
        model.partial_fit(X[:2], ["perhaps", "no"])
    assert pt.BayesianClassifier(model=(4,)).partial_fit(X, LABELS).history_[-1]["epoch"] == 1


# ---- saving


def test_saved_and_loaded_without_pickle(tmp_path, monkeypatch):
    model = pt.BayesianClassifier(**{**SHORT, "epochs": 5, "embedded": ("town",)}).fit(FRAME, LABELS)
    monkeypatch.setattr(pickle, "dumps", None)
    monkeypatch.setattr(pickle, "loads", None)
    model.save(tmp_path / "model.posterity")
    loaded = pt.BayesianClassifier.load(tmp_path / "model.posterity")
    assert loaded.get_params() == {**model.get_params(), "model": [16], "embedded": ["town"], "deterministic": []}
    assert np.array_equal(loaded.predict_proba(FRAME), model.predict_proba(FRAME))
    assert loaded.classes_.tolist() == model.classes_.tolist()
    assert loaded.feature_names_in_.tolist() == list(FRAME)
    ahead = [copy.deepcopy(each).partial_fit(FRAME, LABELS).predict_proba(FRAME) for each in (model, loaded)]
    assert np.array_equal(*ahead)


def test_what_cannot_be_loaded_is_told(tmp_path, regressor):
    regressor.save(tmp_path / "r")
    with pytest.raises(UsageError, match="holds BayesianRegressor, not a BayesianClassifier"):
        pt.BayesianClassifier.load(tmp_path / "r")
    pt.BayesianRegressor(model=module, epochs=1).fit(X, Y).save(tmp_path / "own")
    with pytest.raises(UsageError, match=r"your own model, which is code: load\(path, model=\.\.\.\)"):
        pt.BayesianRegressor.load(tmp_path / "own")
    (tmp_path / "bad").write_bytes((tmp_path / "r").read_bytes()[:-10])
    with pytest.raises(CorruptFileError):
        pt.BayesianRegressor.load(tmp_path / "bad")


def test_intervals_of_heavy_tailed_targets_are_students():
    noise = np.random.default_rng(3).standard_t(2.2, size=400)
    x = np.random.default_rng(4).normal(size=(400, 3))
    model = pt.BayesianRegressor(**SHORT).fit(x[:200], 10 * x[:200, 0] + noise[:200])
    distribution = model.predict_distribution(x[200:])
    assert isinstance(distribution, StudentPrediction)
    low, high = model.predict_interval(x[200:], level=0.8)
    assert np.allclose(distribution.cdf(high[:, None]) - distribution.cdf(low[:, None]), 0.8, atol=1e-4)
    targets = 10 * x[200:, 0] + noise[200:]
    assert 0.7 < ((low < targets) & (targets < high)).mean() < 0.9
