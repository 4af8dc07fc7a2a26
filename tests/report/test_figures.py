import math
import os
import struct
import subprocess
import sys

import numpy as np
import pytest
import torch

from posterity.core.errors import UsageError
from posterity.metrics import reliability
from posterity.report import (
    confidence_histograms,
    regression_band,
    reliability_diagram,
    save,
    training_curves,
    tuning_curves,
)


def lines(axes):
    return {line.get_label(): (list(line.get_xdata()), list(line.get_ydata())) for line in axes.lines}


def bars(axes, label):
    container = next(c for c in axes.containers if c.get_label() == label)
    return {round(bar.get_x(), 6): (bar.get_y(), bar.get_height()) for bar in container}


@pytest.fixture
def table():
    # Confidence 0.55 and 0.6, one right; 0.95 and 1, both right: over-, then underconfident.
    p = torch.tensor([0.55, 0.6, 0.95, 1.0], dtype=torch.float64)
    return reliability(torch.stack([p, 1 - p], dim=1), torch.tensor([0, 1, 0, 0]), bins=5)


def test_training_curves_hold_the_history():
    history = [
        {"epoch": 1, "step": 10, "nll": 2.0, "kl": 300.0, "val_nll": 2.5, "val_accuracy": 0.5, "lr": 0.1},
        {"epoch": 2, "step": 20, "nll": 1.0, "kl": 200.0, "val_nll": 1.5, "val_accuracy": 0.75, "lr": 0.1},
    ]
    nll, kl, accuracy = training_curves(history).axes
    assert lines(nll) == {"train": ([1, 2], [2.0, 1.0]), "validation": ([1, 2], [2.5, 1.5])}
    assert lines(kl) == {"kl": ([1, 2], [300.0, 200.0])}
    assert lines(accuracy) == {"validation": ([1, 2], [0.5, 0.75])}
    assert [axes.get_xlabel() for axes in (nll, kl, accuracy)] == ["epoch"] * 3
    assert "nats" in nll.get_ylabel()
    assert "nats" in kl.get_ylabel()


def test_training_curves_show_the_average_and_say_what_they_are_of():
    record = {"epoch": 1, "nll": 2.0, "kl": 3.0, "rmse": 0.5, "val_nll": 2.5, "val_rmse": 0.6}
    history = [record, {**record, "epoch": 2, "val_average_nll": 2.2, "val_average_rmse": 0.55}]
    nll, kl, rmse = training_curves(history).axes
    assert [axes.get_ylabel() for axes in (nll, kl, rmse)] == ["nll per datum (nats)", "kl, all weights (nats)", "rmse"]
    assert lines(nll)["average"] == ([2], [2.2])
    assert lines(rmse)["average"] == ([2], [0.55])
    labels = [axes.get_ylabel() for axes in training_curves(history, standardised=True, point=True).axes]
    assert labels == ["nll per standardised datum (nats)", "-log prior, all weights (nats)", "rmse (standardised)"]


def test_training_curves_tolerate_missing_keys():
    rmse_last = training_curves([{"step": 5, "nll": 1.0}, {"step": 10, "nll": 0.5, "val_rmse": 3.0}])
    nll, rmse = rmse_last.axes
    assert lines(nll) == {"train": ([5, 10], [1.0, 0.5])}
    assert lines(rmse) == {"validation": ([10], [3.0])}
    assert rmse.get_xlabel() == "step"
    (kl,) = training_curves([{"kl": 2.0}, {"kl": math.nan}]).axes
    assert kl.lines[0].get_xdata().tolist() == [1, 2]


@pytest.mark.parametrize("history", [[], [{"epoch": 1, "lr": 0.1}]])
def test_training_curves_without_anything_to_draw(history):
    with pytest.raises(UsageError, match=f"history has {len(history)} records"):
        training_curves(history)


def test_reliability_diagram_holds_the_bins(table):
    figure = reliability_diagram({"one": table, "two": table})
    assert [axes.get_title() for axes in figure.axes] == ["one", "two", "", ""]
    upper, lower = figure.axes[0], figure.axes[2]
    assert bars(upper, "accuracy") == {0.4: (0, pytest.approx(0.5)), 0.8: (0, pytest.approx(1.0))}
    # The gap reaches from the accuracy to the confidence.
    assert bars(upper, "overconfident") == {0.4: (pytest.approx(0.5), pytest.approx(0.075))}
    assert bars(upper, "underconfident") == {0.8: (pytest.approx(1.0), pytest.approx(-0.025))}
    assert lines(upper) == {"calibrated": ([0, 1], [0, 1])}
    assert upper.texts[0].get_text() == f"ECE {table.ece:.3f}"
    assert [bar.get_height() for bar in lower.patches] == [0, 0, 0.5, 0, 0.5]


def test_confidence_histograms_hold_the_shares():
    figure = confidence_histograms(
        {
            "sure": {
                "test": torch.tensor([0.99, 0.97, 1.0 + 2e-7, 0.52]),
                "noise": torch.tensor([0.96, 0.98]),
            },
            "unsure": {"test": torch.tensor([0.93]), "noise": torch.tensor([0.26, 0.34])},
        }
    )
    sure, unsure = figure.axes
    steps = {p.get_label(): p.get_data() for p in sure.patches if not p.get_label().startswith("_")}
    assert steps["test"].values[[10, 19]].tolist() == [0.25, 0.75]
    assert steps["noise"].values[19] == 1
    assert all(step.values.sum() == pytest.approx(1) for step in steps.values())
    np.testing.assert_allclose(steps["test"].edges, np.linspace(0, 1, 21))
    assert [text.get_text() for text in unsure.texts] == ["mean: test 0.93, noise 0.30"]
    assert sure.get_ylim() == unsure.get_ylim()
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["test", "noise"]


def test_confidence_histograms_refuse_what_is_no_confidence():
    with pytest.raises(UsageError, match="'net' on 'noise' must be in"):
        confidence_histograms({"net": {"noise": torch.tensor([1.2])}})
    with pytest.raises(UsageError, match="not empty"):
        confidence_histograms({"net": {"noise": torch.empty(0)}})
    with pytest.raises(UsageError, match=r"networks\['net'\] is empty"):
        confidence_histograms({"net": {}})


def test_regression_band_holds_data_mean_and_bands():
    figure = regression_band(
        x=torch.tensor([[0.5], [1.5]]),
        y=torch.tensor([[1.0], [2.0]]),
        grid=torch.tensor([2.0, 0.0, 1.0]),  # drawn in order of x
        mean=torch.tensor([3.0, 1.0, 2.0]),
        aleatoric_sd=torch.full((3,), 0.3),
        epistemic_sd=torch.tensor([0.4, 0.4, 0.0]),
    )
    (axes,) = figure.axes
    assert lines(axes)["data"] == ([0.5, 1.5], [1.0, 2.0])
    assert lines(axes)["mean"] == ([0.0, 1.0, 2.0], [1.0, 2.0, 3.0])
    bands = {band.get_label(): band.get_paths()[0].vertices for band in axes.collections}
    for name, sds in {"total, ±2 sd": (0.5, 0.3, 0.5), "epistemic, ±2 sd": (0.4, 0.0, 0.4)}.items():
        for at, sd in enumerate(sds):
            heights = bands[name][bands[name][:, 0] == at, 1]
            assert heights.min() == pytest.approx(at + 1 - 2 * sd, abs=1e-6)
            assert heights.max() == pytest.approx(at + 1 + 2 * sd, abs=1e-6)


def test_regression_band_refuses_unequal_lengths():
    one, two = torch.zeros(1), torch.zeros(2)
    with pytest.raises(UsageError, match="'x': 1, 'y': 2"):
        regression_band(one, two, two, two, two, two)
    with pytest.raises(UsageError, match="'epistemic_sd': 1"):
        regression_band(two, two, two, two, two, one)


def test_empty_reliability_diagram_is_refused():
    with pytest.raises(UsageError, match="networks is empty"):
        reliability_diagram({})


def test_save_writes_a_png_at_150_dpi_and_makes_the_folder(tmp_path, table):
    path = tmp_path / "figures" / "reliability.png"
    figure = reliability_diagram({"net": table})
    save(figure, path)
    data = path.read_bytes()
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    assert struct.unpack(">II", data[16:24]) == tuple(int(150 * inches) for inches in figure.get_size_inches())


def test_pyplot_is_never_imported():
    code = "import posterity.report.figures, sys; sys.exit('matplotlib.pyplot' in sys.modules)"
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    assert subprocess.run([sys.executable, "-c", code], env=env, check=False).returncode == 0


TUNED = {"h_min": 0.5, "h_max": 20.0, "C": 3.0, "D": 0.1, "mu": 0.7, "lr": 0.05}


def test_tuning_curves_show_what_yellowfin_measured():
    history = [{"epoch": e, **{k: v * (e if k != "mu" else 1) for k, v in TUNED.items()}} for e in (1, 2, 3)]
    figure = tuning_curves(history)
    assert [axes.get_yscale() for axes in figure.axes] == ["log", "log", "log", "linear", "log"]
    drawn = {name: values for axes in figure.axes for name, values in lines(axes).items()}
    assert drawn == {k: ([1, 2, 3], [record[k] for record in history]) for k in TUNED}
    with pytest.raises(UsageError, match="history"):
        tuning_curves([])
