"""Evaluation: units by hand, keys, ranges, and that it does not depend on what was done before."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from posterity import data
from posterity.core.errors import DataError, UsageError
from posterity.experiments import Run, evaluate, load_run, predict_inputs, train_run
from posterity.likelihoods import ClassPrediction, RealPrediction
from posterity.metrics import brief_score, score

TINY = {"model": "mlp", "hidden": (8,), "epochs": 2}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Trained runs by data set."""
    folder = tmp_path_factory.mktemp("runs")
    for name in ("digits", "diabetes"):
        train_run(Run(dataset=name, **TINY), folder / name)
    return {name: load_run(folder / name) for name in ("digits", "diabetes")}


def test_own_units_by_hand(runs):
    trained = runs["diabetes"]
    mean, sd = trained.standardisation.y_mean.item(), trained.standardisation.y_sd.item()
    assert 100 < mean < 200
    assert 50 < sd < 100
    z = RealPrediction(
        mean=torch.tensor([[0.5]]), aleatoric_sd=torch.tensor([[0.2]]), epistemic_sd=torch.tensor([[0.1]]),
        samples=torch.tensor([[[0.4]], [[0.6]]]), noise_sd=torch.tensor([[[0.2]], [[0.2]]]),
    )  # fmt: skip
    y = z.rescaled(trained.standardisation.y_mean, trained.standardisation.y_sd)
    assert y.mean.item() == pytest.approx(mean + 0.5 * sd)
    assert y.samples.flatten().tolist() == pytest.approx([mean + 0.4 * sd, mean + 0.6 * sd])
    assert y.aleatoric.item() == pytest.approx(0.04 * sd**2)
    assert y.epistemic.item() == pytest.approx(0.01 * sd**2)
    assert y.noise_sd.flatten().tolist() == pytest.approx([0.2 * sd] * 2)
    target = data.Dataset(torch.zeros(1, 10), torch.tensor([[mean + 0.8 * sd]]), "regression")
    standard = data.Dataset(torch.zeros(1, 10), torch.tensor([[0.8]]), "regression")
    own, raw = score(y, target.y, target.task), score(z, standard.y, standard.task)
    assert own["rmse"] == pytest.approx(0.3 * sd, rel=1e-4)
    assert own["log_likelihood"] == pytest.approx(raw["log_likelihood"] - math.log(sd), rel=1e-4)
    densities = [math.exp(-0.5 * (0.8 - m) ** 2 / 0.04) / math.sqrt(2 * math.pi * 0.04) for m in (0.4, 0.6)]
    assert raw["log_likelihood"] == pytest.approx(math.log(sum(densities) / 2), rel=1e-5)
    assert own["crps"] == pytest.approx(raw["crps"] * sd, rel=1e-4)
    assert own["coverage_95"] == raw["coverage_95"] == 1.0


def test_scores_by_hand():
    samples = torch.tensor([[[0.8, 0.2], [0.5, 0.5]], [[0.6, 0.4], [0.1, 0.9]]])
    mean = samples.mean(0)
    prediction = ClassPrediction(mean, torch.zeros(2), torch.zeros(2), samples)
    dataset = data.Dataset(torch.zeros(2, 1), torch.tensor([0, 0]), "classification", 2)
    found = score(prediction, dataset.y, dataset.task)
    assert found.keys() == {
        "accuracy", "nll", "expected_nll", "ece", "brier", "confidence", "entropy", "aleatoric", "epistemic",
    }  # fmt: skip
    assert found["accuracy"] == 0.5
    assert found["nll"] == pytest.approx(-(math.log(0.7) + math.log(0.3)) / 2)
    assert found["expected_nll"] == pytest.approx(-sum(map(math.log, (0.8, 0.5, 0.6, 0.1))) / 4, rel=1e-5)
    assert found["confidence"] == pytest.approx(0.7)
    brief = brief_score(prediction, dataset.y, dataset.task)
    assert brief == {"nll": found["nll"], "accuracy": 0.5}


def test_regression_keys(runs):
    found = evaluate(runs["diabetes"], samples=4)
    assert found.test.keys() == {
        "rmse", "log_likelihood", "expected_log_likelihood", "crps", "coverage_90", "coverage_95", "aleatoric",
        "epistemic",
    }  # fmt: skip
    assert found.as_dict() == {"test": found.test}
    assert found.test["expected_log_likelihood"] <= found.test["log_likelihood"]  # Jensen
    with pytest.raises(UsageError, match="classification"):
        evaluate(runs["diabetes"], ood=["noise"])


def test_shifted_data(runs):
    found = evaluate(runs["digits"], samples=4, ood=["noise", "digits"])
    assert list(found.shifted) == ["noise", "digits"]
    for metrics in found.shifted.values():
        assert all(0 <= value <= 1 for name, value in metrics.items() if name != "entropy")
    # The test data cannot be told from themselves.
    assert found.shifted["digits"]["auroc_entropy"] == pytest.approx(0.5)
    assert found.shifted["digits"]["confidence"] == pytest.approx(found.test["confidence"], rel=1e-5)
    with pytest.raises(DataError, match="gap"):
        evaluate(runs["digits"], ood=["gap"])


def test_an_evaluation_depends_on_its_seed_alone(runs):
    trained = runs["digits"]
    first = evaluate(trained, samples=4, seed=3, ood=["noise"]).as_dict()
    trained.net.draw()
    torch.rand(5)
    assert evaluate(trained, samples=4, seed=3, ood=["noise"]).as_dict() == first
    assert evaluate(trained, samples=4, seed=4, ood=["noise"]).as_dict() != first


def test_the_given_test_data_are_raw(runs):
    trained = runs["diabetes"]
    test = data.load_test("diabetes")
    assert evaluate(trained, samples=4, test=test).test == evaluate(trained, samples=4).test
    scaled = trained.standardisation.inputs(test.x)
    inside = trained.net.predict(scaled, 4, seed=0).mean * trained.standardisation.y_sd + trained.standardisation.y_mean
    torch.testing.assert_close(predict_inputs(trained, test.x, samples=4, seed=0).mean, inside)


def test_inputs_of_another_shape(runs):
    with pytest.raises(DataError, match=r"\(9,\).*\(10,\)"):
        predict_inputs(runs["diabetes"], torch.zeros(2, 9), samples=1, seed=0)


def test_the_held_out_part_is_left_out_of_the_statistics(tmp_path):
    """Mean and sd of inputs and targets come from what is trained on."""
    x = np.arange(100, dtype=np.float32)[:, None]
    np.savez(tmp_path / "d.npz", x=x, y=x * 2, x_test=x + 1000, y_test=x + 1000)
    run = Run(dataset=str(tmp_path / "d.npz"), val_fraction=0.2, **TINY)
    train_run(run, tmp_path / "run")
    scale = load_run(tmp_path / "run").standardisation
    assert scale.x_mean.item() != pytest.approx(49.5, abs=1e-3)
    assert 35 < scale.x_mean.item() < 65
    assert scale.y_sd.item() == pytest.approx(2 * scale.x_sd.item(), rel=1e-5)


def test_a_loaded_run_predicts_as_the_trained_one(tmp_path, digits):
    result = train_run(Run(dataset="digits", deterministic=("3.*",), **TINY), tmp_path / "run")
    trained = load_run(tmp_path / "run")
    assert trained.finished
    for name, tensor in result.net.state_dict().items():
        assert torch.equal(trained.net.state_dict()[name], tensor), name
    raw = data.load_test("digits").x[:5]
    x = trained.standardisation.inputs(raw)
    assert torch.equal(trained.net.predict(x, 3, seed=1).mean, result.net.predict(x, 3, seed=1).mean)


def test_resume_with_another_run_names_the_change(tmp_path):
    train_run(Run(**TINY), tmp_path / "run")
    with pytest.raises(UsageError, match=r"epochs is 2 there, 3 here"):
        train_run(Run(**{**TINY, "epochs": 3}), tmp_path / "run", resume=True)
