"""A table of results: names, choices, numbers over rows, histories, files."""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from posterity.core.errors import UnknownNameError, UsageError
from posterity.experiments import Record, Results, Row, Run, execute
from posterity.experiments.results import is_lower_better
from posterity.experiments.row import DIVERGED, WAITING, flat

MOONS = {"dataset": "two-moons", "model": "mlp", "hidden": (4,), "val_fraction": 0.2}


def row(number: int, accuracy: float | None, **config: object) -> Row:
    metrics = {} if accuracy is None else {"accuracy": accuracy, "noise": number / 2}
    state = {} if accuracy is not None else {"state": DIVERGED, "error": "step 3: NaN"}
    return Row(f"k{number}", {"seed": number, "noise": "learnt", **config}, metrics, **state)


@pytest.fixture
def results() -> Results:
    sgd = [row(i, accuracy, optimizer="sgd", lr=0.1, hidden=(4, 4)) for i, accuracy in enumerate((0.2, 0.4, 0.9))]
    adam = [row(i, accuracy, optimizer="adam", lr=0.01, hidden=(8,)) for i, accuracy in enumerate((0.5, None))]
    return Results([*sgd, *adam])


def test_column_finds_settings_metrics_and_what_stands_beside_them(results: Results) -> None:
    assert results.column("optimizer") == ["sgd"] * 3 + ["adam"] * 2
    assert results.column("accuracy")[:4] == [0.2, 0.4, 0.9, 0.5]
    assert math.isnan(results.column("accuracy")[4])
    assert results.column("metrics.noise")[:2] == [0.0, 0.5]
    assert results.column("config.noise") == ["learnt"] * 5
    assert results.column("state")[-1] == DIVERGED


def test_column_refuses_what_is_not_there_or_not_clear(results: Results) -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'accuracy'"):
        results.column("acuracy")
    with pytest.raises(UsageError, match=r"give config\.noise or metrics\.noise"):
        results.column("noise")


def test_a_dotted_setting_is_found_by_its_last_part() -> None:
    config = flat({"seed": 0, "optimizer_options": {"momentum": 0.9}, "hidden": [4, 4]})
    assert config == {"seed": 0, "optimizer_options.momentum": 0.9, "hidden": (4, 4)}
    results = Results([Row("a", config, {}), Row("b", {"seed": 1}, {})])
    assert results.column("momentum") == [0.9, None]


def test_where_takes_values_and_functions(results: Results) -> None:
    assert [r.key for r in results.where(optimizer="sgd", accuracy=lambda a: a > 0.3)] == ["k1", "k2"]
    assert len(results.where(hidden=(8,))) == 2
    assert len(results.filter(lambda r: r.seed == 0)) == 2
    assert len(results.finished) == 4


def test_groups_keep_their_order_and_their_columns(results: Results) -> None:
    groups = results.group_by("optimizer")
    assert list(groups) == ["sgd", "adam"]
    assert list(results.group_by("optimizer", "seed")) == [("sgd", 0), ("sgd", 1), ("sgd", 2), ("adam", 0), ("adam", 1)]
    lost = groups["adam"].where(seed=1)
    assert math.isnan(lost.mean("accuracy"))  # all of them diverged: the column is known, and has no number


def test_numbers_over_rows_are_numpys(results: Results) -> None:
    sgd = results.where(optimizer="sgd")
    values = np.array([0.2, 0.4, 0.9])
    assert sgd.mean("accuracy") == pytest.approx(values.mean())
    assert sgd.sd("accuracy") == pytest.approx(values.std(ddof=1))
    assert sgd.standard_error("accuracy") == pytest.approx(values.std(ddof=1) / math.sqrt(3))
    assert math.isnan(results.where(optimizer="adam").sd("accuracy"))  # one number has none
    assert results.mean("lr") == pytest.approx(0.064)


def test_success_rate_counts_those_that_diverged_and_not_those_that_wait(results: Results) -> None:
    waiting = Results([Row("w", {"seed": 9, "optimizer": "adam"}, {}, WAITING)])
    assert (results + waiting).success_rate("accuracy", above=0.3) == pytest.approx(3 / 5)


def test_bootstrap_covers_the_mean_as_often_as_it_says() -> None:
    draws = np.random.default_rng(0).normal(2.0, 1.0, size=(200, 40))
    covered = 0
    for sample in draws:
        low, high = Results(Row(str(i), {"seed": i}, {"z": z}) for i, z in enumerate(sample)).bootstrap("z", level=0.9)
        covered += low < 2.0 < high
    assert 0.84 < covered / 200 < 0.94
    one = Results([Row("a", {"seed": 0}, {"z": 1.5})])
    assert one.bootstrap("z") == (1.5, 1.5)


def test_bootstrap_is_the_same_for_the_same_seed(results: Results) -> None:
    assert results.bootstrap("accuracy", seed=3) == results.bootstrap("accuracy", seed=3)
    assert results.bootstrap("accuracy", seed=3) != results.bootstrap("accuracy", seed=4)


def test_best_goes_by_the_metrics_name(results: Results) -> None:
    assert results.best("accuracy").metrics["accuracy"] == 0.9
    assert results.best("accuracy", lowest=True).metrics["accuracy"] == 0.2
    assert results.best("metrics.noise").metrics["noise"] == 0.0
    assert [is_lower_better(n) for n in ("nll", "val_accuracy", "notmnist.auroc", "rmse", "test_log_likelihood")] == [
        True, False, False, True, False,
    ]  # fmt: skip
    with pytest.raises(UsageError, match="no row has a number"):
        results.where(seed=1, optimizer="adam").best("accuracy")


def test_summary_has_a_line_a_group(results: Results) -> None:
    first, second = results.summary(["optimizer"], ["accuracy"])
    assert (first["optimizer"], first["count"], first["bad"], first["accuracy.best"]) == ("sgd", 3, 0, 0.9)
    assert (second["count"], second["bad"], second["accuracy.mean"]) == (2, 1, 0.5)
    (whole,) = results.summary([], ["accuracy"])
    assert whole["count"] == 5


def test_tables_go_to_pandas_and_into_files(results: Results, tmp_path: Path) -> None:
    frame = results.to_pandas()
    assert list(frame.columns) == [
        "key", "state", "seed", "optimizer", "lr", "hidden", "accuracy", "noise", "error", "folder",
    ]  # fmt: skip
    for name in ("t.csv", "t.json", "t.parquet"):
        results.write(tmp_path / "deep" / name, every=True)
    with (tmp_path / "deep/t.csv").open() as file:
        lines = list(csv.DictReader(file))
    assert (lines[0]["accuracy"], lines[4]["accuracy"], lines[0]["hidden"], lines[0]["config.noise"]) == (
        "0.2", "", "4,4", "learnt",
    )  # fmt: skip
    assert json.loads((tmp_path / "deep/t.json").read_text())[4]["accuracy"] is None
    stored = pd.read_parquet(tmp_path / "deep/t.parquet")
    assert stored["accuracy"][0] == 0.2
    assert stored["hidden"][3] == "8"
    with pytest.raises(UnknownNameError, match="kind of file"):
        results.write(tmp_path / "t.xlsx")


def test_parquet_takes_a_setting_that_is_a_number_or_a_rule(tmp_path: Path) -> None:
    config = [{"seed": 0, "temperature": "auto"}, {"seed": 1, "temperature": 0.1}, {"seed": 2, "temperature": None}]
    Results(Row(str(i), c, {"z": 1.0}) for i, c in enumerate(config)).write(tmp_path / "t.parquet")
    assert list(pd.read_parquet(tmp_path / "t.parquet")["temperature"].dropna()) == ["auto", "0.1"]


def test_results_of_runs_have_their_metrics_and_join_their_histories(tmp_path: Path) -> None:
    records = [
        execute(Run.of(**MOONS, epochs=epochs, seed=seed), tmp_path / str(seed)) for seed, epochs in enumerate((2, 3))
    ]
    results = Results.of(records)
    assert results.column("accuracy") == [record.test["accuracy"] for record in records]
    assert results.column("val_nll") == [record.history[-1]["val_nll"] for record in records]
    assert results.column("train_nll") == [record.history[-1]["nll"] for record in records]
    epochs, nll = results.histories("val_nll")
    assert list(epochs) == [1, 2, 3]
    assert nll.shape == (2, 3)
    assert list(nll[1]) == [r["val_nll"] for r in records[1].history]
    assert math.isnan(nll[0, 2])
    with pytest.raises(UnknownNameError, match="val_nll"):
        results.histories("val_nl")
    again = Results.read(tmp_path)
    assert [row.metrics for row in again] == [row.metrics for row in results]
    assert again[0].folder == Record.read(tmp_path / "0").folder


def test_read_refuses_a_folder_without_runs(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no runs"):
        Results.read(tmp_path)


def test_a_metric_called_as_a_part_of_a_row_keeps_its_numbers() -> None:
    (line,) = Results([Row("k", {"lr": 0.1}, {"error": 0.25})]).table(every=True)
    assert (line["metrics.error"], line["error"], line["lr"]) == (0.25, "", 0.1)


def test_an_option_is_found_and_suggested_by_its_last_name() -> None:
    results = Results([Row("k", {"lr": 0.1, "optimizer_options.momentum": 0.9}, {"nll": 1.0})])
    assert results.column("momentum") == [0.9]
    with pytest.raises(UnknownNameError, match="Did you mean 'momentum'"):
        results.column("momentun")
