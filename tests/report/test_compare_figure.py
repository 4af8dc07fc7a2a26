"""The figure of a comparison."""

import numpy as np
import pytest

from posterity.experiments import Results
from posterity.experiments.compare import Comparison
from posterity.experiments.row import DIVERGED, Row
from posterity.report import compare_figure, save
from posterity.report.compare_figure import said


class Stored(Row):
    """A row whose history is at hand."""

    @property
    def history(self):
        value = self.metrics.get("val_accuracy", 0.0)
        return [{"epoch": e, "val_accuracy": value * e / 4, "nll": 1.0} for e in range(1, 5)]


def row(group, seed, value):
    metrics = {} if value is None else {"val_accuracy": value}
    return Stored("k", {"optimizer": group, "seed": seed}, metrics, "finished" if metrics else DIVERGED)


def comparison(groups, **options):
    rows = Results(row(name, s, v) for name, values in groups.items() for s, v in enumerate(values))
    return Comparison(rows.group_by("optimizer"), "val_accuracy", **options)


def test_curves_bands_best_and_points(tmp_path):
    figure = compare_figure(comparison({"sgd": [0.4, 0.8, 0.1, None], "adam": [0.6, 0.7]}, success=0.15))
    left, right = figure.axes
    means = {line.get_label(): line.get_ydata() for line in left.lines if not line.get_label().startswith("_")}
    np.testing.assert_allclose(means["sgd"], 0.6 * np.arange(1, 5) / 4)
    best = [line.get_ydata() for line in left.lines if line.get_label().startswith("_")]
    np.testing.assert_allclose(best[0], 0.8 * np.arange(1, 5) / 4)
    band = left.collections[0].get_paths()[0].vertices
    assert band[:, 1].max() == pytest.approx(0.6 + np.std([0.4, 0.8], ddof=1))
    assert [text.get_text() for text in right.get_yticklabels()] == ["sgd\n2 of 4 runs", "adam\n2 of 2 runs"]
    assert right.get_xlabel() == "validation accuracy, runs above 0.15"
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["sgd", "adam"]
    save(figure, tmp_path / "compare.png")


def test_a_group_without_success_has_its_row(tmp_path):
    figure = compare_figure(comparison({"sgd": [0.4, 0.8], "radam": [None, 0.05]}, success=0.15))
    assert figure.axes[1].get_yticklabels()[1].get_text() == "radam\n0 of 2 runs"
    assert "no run" in [text.get_text() for text in figure.axes[1].texts]
    save(figure, tmp_path / "compare.png")


def test_many_groups_are_told_apart():
    figure = compare_figure(comparison({f"g{i}": [0.1 * i, 0.05 * i] for i in range(1, 10)}))
    looks = {(line.get_color(), line.get_linestyle()) for line in figure.axes[0].lines if line.get_linewidth() == 2}
    assert len(looks) == 9


def test_names_for_people():
    assert said("val_accuracy") == "validation accuracy"
    assert said("val_average_nll") == "of the average, nll"
    assert said("train_nll") == "training nll"
    assert said("log_likelihood") == "log likelihood"
