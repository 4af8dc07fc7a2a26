"""Evaluation: units by hand, keys, ranges, and that it does not depend on what was done before."""

from __future__ import annotations

import math

import pytest
import torch

from posterity import data
from posterity.core.errors import DataError, UsageError
from posterity.experiments import Run, evaluate, execute, load_run
from posterity.likelihoods import ClassPrediction, RealPrediction
from posterity.metrics import brief_score, score

TINY = {"model": "mlp", "hidden": (8,), "epochs": 2}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Trained runs by data set."""
    folder = tmp_path_factory.mktemp("runs")
    for name in ("digits", "diabetes"):
        execute(Run(dataset=name, **TINY), folder / name, samples=2)
    return {name: load_run(folder / name) for name in ("digits", "diabetes")}


def of_last(trained, **options):
    return evaluate(trained, samples=4, **options)["last"]


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
    found = of_last(runs["diabetes"])
    assert found.test.keys() == {
        "rmse", "log_likelihood", "expected_log_likelihood", "crps", "coverage_90", "coverage_95", "aleatoric",
        "epistemic",
    }  # fmt: skip
    assert found.as_dict() == {"test": found.test}
    assert found.test["expected_log_likelihood"] <= found.test["log_likelihood"]  # Jensen
    with pytest.raises(UsageError, match="classification"):
        evaluate(runs["diabetes"], ood=["noise"])


def test_shifted_data(runs):
    found = of_last(runs["digits"], ood=["noise", "digits"])
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
    first = of_last(trained, seed=3, ood=["noise"]).as_dict()
    trained.net.draw()
    torch.rand(5)
    assert of_last(trained, seed=3, ood=["noise"]).as_dict() == first
    assert of_last(trained, seed=4, ood=["noise"]).as_dict() != first


def test_the_given_test_data_are_raw(runs):
    trained = runs["diabetes"]
    test = data.load_test("diabetes")
    assert of_last(trained, test=test).test == of_last(trained).test
    scaled = trained.standardisation.inputs(test.x)
    inside = (
        trained.net.predictive(scaled, 4, seed=0).mean * trained.standardisation.y_sd + trained.standardisation.y_mean
    )
    torch.testing.assert_close(trained.predict(test.x, 4, seed=0).mean, inside)


def test_fewer_test_rows_are_the_same_for_every_seed_and_of_other_data_as_many(tmp_path):
    found = []
    for seed in (0, 1):
        run = Run(**TINY, test_rows=50, seed=seed)
        found.append(execute(run, tmp_path / str(seed), samples=2, ood=["noise"]).predictions["last"])
    targets = [each["test"]["targets"] for each in found]
    assert len(targets[0]) == 50
    assert (targets[0] == targets[1]).all()
    assert len(found[0]["noise"]["mean"]) == 50
    everything = Run(**TINY, test_rows=10_000)
    assert len(execute(everything, tmp_path / "all", samples=2).predictions["last"]["test"]["targets"]) == 360
