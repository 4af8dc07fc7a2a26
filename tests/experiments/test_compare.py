"""Groups of runs over each other, from rows by hand and from stored runs."""

import math

import numpy as np
import pytest

from posterity.core.errors import UsageError
from posterity.experiments import Results, Run, execute
from posterity.experiments.compare import Comparison, chosen, gather
from posterity.experiments.row import DIVERGED, WAITING, Row


def row(metric, *, state="finished", **config):
    numbers = {} if metric is None else {"accuracy": metric, "nll": 1 - metric}
    return Row("key", config, numbers, state)


def grouped(rows, *names, **options):
    results = Results(rows)
    groups = {str(key): part for key, part in results.group_by(*names).items()}
    return Comparison(groups, options.pop("metric", "accuracy"), **options)


PAIRED = [row(0.5 + 0.1 * seed, optimizer="sgd", seed=seed) for seed in range(4)] + [
    row(0.52 + 0.1 * seed + 0.01 * (seed % 2), optimizer="adam", seed=seed) for seed in range(4)
]


def test_a_table_by_hand():
    rows = [row(v, optimizer="sgd", seed=s) for s, v in enumerate((0.1, 0.4, 0.6))]
    rows += [row(None, optimizer="sgd", seed=3, state=DIVERGED), row(None, optimizer="sgd", seed=4, state=WAITING)]
    (line,) = grouped(rows, "optimizer").table()
    assert (line.group, line.tried, line.bad, line.count, line.best) == ("sgd", 4, 1, 3, 0.6)
    assert line.success_rate is None
    assert line.mean == pytest.approx(1.1 / 3)
    assert line.standard_error == pytest.approx(np.std([0.1, 0.4, 0.6], ddof=1) / math.sqrt(3))
    (line,) = grouped(rows, "optimizer", success=0.15).table()
    assert (line.success_rate, line.count, line.mean) == (0.5, 2, 0.5)  # of four that were tried, one diverged
    (line,) = grouped(rows, "optimizer", metric="nll", success=0.7).table()
    assert (line.count, line.best) == (2, pytest.approx(0.4))  # less is better


def test_differences_are_paired_by_the_seed():
    (found,) = grouped(PAIRED, "optimizer").differences()
    assert (found.group, found.reference, found.pairs) == ("sgd", "adam", 4)  # the best is the reference
    assert found.mean == pytest.approx(-0.025)
    assert -0.03 - 1e-9 <= found.low < found.mean < found.high <= -0.02 + 1e-9
    (turned,) = grouped(PAIRED, "optimizer").differences("sgd")
    assert (turned.mean, turned.low) == (pytest.approx(0.025), pytest.approx(-found.high))


def test_pairs_agree_in_all_that_varies_within_a_group():
    rows = [row(lr + 0.1 * s + shift, lr=lr, seed=s, optimizer=name)
            for name, shift in (("sgd", 0.0), ("adam", 0.25)) for lr in (0.1, 0.2) for s in range(3)]  # fmt: skip
    (found,) = grouped(rows, "optimizer").differences()
    assert (found.pairs, found.mean, found.low, found.high) == (6, *(pytest.approx(-0.25),) * 3)


def test_without_pairs_groups_are_resampled_each_by_itself():
    rows = [row(0.1 * i, lr=0.01 * i, optimizer="sgd", seed=0) for i in range(5)]
    rows += [row(0.3 + 0.1 * i, lr=0.5 + 0.01 * i, optimizer="adam", seed=0) for i in range(5)]
    (found,) = grouped(rows, "optimizer").differences()
    assert (found.pairs, found.mean) == (0, pytest.approx(-0.3))
    assert found.low < -0.4
    assert found.high > -0.2  # wider than paired ones
    (single,) = grouped([PAIRED[0], PAIRED[4]], "optimizer").differences()
    assert math.isnan(single.low)


def test_the_interval_covers_the_true_difference():
    rng = np.random.default_rng(0)
    hits = 0
    for _ in range(60):
        common, noise = rng.normal(size=20), rng.normal(size=20)
        rows = [row(common[s], optimizer="a", seed=s) for s in range(20)]
        rows += [row(common[s] + 0.5 + noise[s], optimizer="b", seed=s) for s in range(20)]
        (found,) = grouped(rows, "optimizer").differences("a")
        hits += found.low <= 0.5 <= found.high
    assert 50 <= hits <= 60


def test_a_group_without_results_is_left_out_of_differences():
    rows = [*PAIRED, row(None, optimizer="radam", seed=0, state=DIVERGED)]
    comparison = grouped(rows, "optimizer")
    assert [found.group for found in comparison.differences()] == ["sgd"]
    assert math.isnan(comparison.table()[-1].mean)
    with pytest.raises(UsageError, match="unknown group with results 'radam'"):
        comparison.differences("radam")
    assert grouped(rows[-1:], "optimizer", metric="config.seed").differences() == []


def test_rows_are_chosen_by_their_values():
    results = Results(PAIRED)
    assert len(chosen(results, ["optimizer=adam", "seed=2"])) == 1
    with pytest.raises(UsageError, match="no run has optimizer adm; there are adam, sgd"):
        chosen(results, ["optimizer=adm"])
    with pytest.raises(UsageError, match="name=value"):
        chosen(results, ["adam"])


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two rates, two seeds each, with validation, in one folder."""
    folder = tmp_path_factory.mktemp("runs")
    for lr in (0.01, 0.1):
        for seed in range(2):
            run = Run(model="mlp", hidden=(8,), train_rows=100, val_fraction=0.5, epochs=3, lr=lr, seed=seed)
            execute(run, folder / f"{lr}-{seed}", samples=2)
    return folder


def test_stored_runs_are_grouped_by_what_varies(runs):
    comparison = gather([runs])
    assert list(comparison.groups) == ["0.01", "0.1"]
    assert comparison.metric == "accuracy"
    assert [line.count for line in comparison.table()] == [2, 2]
    assert comparison.differences()[0].pairs == 2
    by_seed = gather([runs], by=["seed", "lr"], where=["lr=0.1"])
    assert list(by_seed.groups) == ["0, 0.1", "1, 0.1"]


def test_courses_are_of_the_stored_histories(runs):
    name, courses = gather([runs]).courses()
    assert name == "val_accuracy"  # the test accuracy's own course is not known
    results = Results.read(runs)
    histories = [[epoch["val_accuracy"] for epoch in row.history] for row in results if row.config["lr"] == 0.1]
    course = courses["0.1"]
    assert course.epochs.tolist() == [1, 2, 3]
    np.testing.assert_allclose(course.mean, np.mean(histories, 0))
    np.testing.assert_allclose(course.sd, np.std(histories, 0, ddof=1))
    assert course.best.tolist() in histories
    assert gather([runs], metric="train_nll").courses()[0] == "nll"
    assert gather([runs], metric="val_nll").courses()[0] == "val_nll"
    assert gather([runs], metric="ece").courses()[1] == {}


def test_folders_are_groups_by_the_names_that_tell_them_apart(runs):
    comparison = gather([runs / "0.1-0", runs / "0.01-0"])
    assert list(comparison.groups) == ["0.1-0", "0.01-0"]
    with pytest.raises(UsageError, match="given twice"):
        gather([runs / "0.1-0", runs / "0.1-0"])
    with pytest.raises(UsageError, match="unknown column 'acuracy'"):
        gather([runs], metric="acuracy")
    with pytest.raises(UsageError, match="there are no runs"):
        gather([runs / "nosuch"])
