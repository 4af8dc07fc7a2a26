"""A metric over two settings: places, means, limits, failures, the fitted line."""

import numpy as np
import pytest

from posterity.core.errors import UsageError
from posterity.experiments import Results
from posterity.experiments.landscape import landscape, log_axes, other_settings
from posterity.experiments.row import DIVERGED, FAILED, WAITING, Row
from posterity.experiments.sweep import sweep
from posterity.optim import robust_rates


def row(x, y, nll, *, state="finished", seed=0, **config):
    config |= {"lr": x, "optimizer_options.momentum": y, "seed": seed}
    return Row("key", config, {} if nll is None else {"nll": nll}, state)


def test_seeds_are_averaged_and_failures_keep_their_place():
    rows = [row(0.1, 0.5, 1.0), row(0.1, 0.5, 3.0, seed=1), row(0.2, 0.5, 5.0), row(0.3, 0.9, None, state=DIVERGED)]
    rows += [row(0.4, 0.9, None, state=FAILED), row(0.9, 0.9, None, state=WAITING), row(0.5, 0.1, float("inf"))]
    found = landscape(Results(rows), "lr", "momentum", "nll", clip=0.0)
    assert list(zip(found.x, found.y, found.z, strict=True)) == [(0.1, 0.5, 2.0), (0.2, 0.5, 5.0)]
    assert sorted(found.failed_x) == [0.3, 0.4, 0.5]
    assert (found.limits, found.best, found.threshold) == ((2.0, 5.0), 0, 3.5)
    assert not found.is_grid


def test_one_of_several_seeds_that_diverged_leaves_the_others():
    rows = [row(0.1, 0.5, 1.0), row(0.1, 0.5, None, state=DIVERGED, seed=1), row(0.2, 0.5, 2.0)]
    found = landscape(Results(rows), "lr", "momentum", "nll")
    assert (found.z.tolist(), len(found.failed_x)) == ([1.0, 2.0], 0)


def test_limits_are_quantiles():
    rows = [row(0.1 * i, 0.5, float(i)) for i in range(1, 102)]
    found = landscape(Results(rows), "lr", "momentum", "nll", clip=0.1)
    assert found.limits == pytest.approx((11, 91))
    with pytest.raises(UsageError, match="clip is the share"):
        landscape(Results(rows), "lr", "momentum", "nll", clip=0.5)


def test_a_grid_is_known_by_its_places():
    full = [row(x, y, x + y) for x in (0.1, 0.2, 0.3) for y in (0.0, 0.5)]
    assert landscape(Results(full), "lr", "momentum", "nll").is_grid
    assert not landscape(Results(full[:-1]), "lr", "momentum", "nll").is_grid
    holed = [*full[:-1], row(0.3, 0.5, None, state=DIVERGED)]
    assert landscape(Results(holed), "lr", "momentum", "nll").is_grid


@pytest.mark.parametrize(
    ("values", "log"),
    [
        (np.logspace(-4, 0, 30), True), (np.linspace(0.001, 1, 30), False), (np.linspace(0.5, 1, 30), False),
        (np.linspace(0, 1, 30), False),
    ],
)  # fmt: skip
def test_a_logarithmic_axis_is_known_by_how_its_values_spread(values, log):
    rows = [row(float(value), 0.01 * i, 1.0) for i, value in enumerate(values)]
    assert landscape(Results(rows), "lr", "momentum", "nll").x_axis.log is log
    if values.min() > 0:
        assert landscape(Results(rows), "lr", "momentum", "nll", log={"lr": not log}).x_axis.log is not log
    else:
        with pytest.raises(UsageError, match="not positive"):
            landscape(Results(rows), "lr", "momentum", "nll", log={"lr": True})


@pytest.mark.parametrize("turned", [False, True])
def test_the_line_is_fitted_to_the_boundary_of_success(turned):
    rng = np.random.default_rng(0)
    rates, momenta = rng.uniform(0.01, 2, 300), rng.uniform(0, 0.95, 300)
    rows = [
        row(lr, mu, 0.3 + 0.001 * i) if lr <= 0.6 * (1 - mu) else row(lr, mu, None if i % 2 else 2.3, state=DIVERGED)
        for i, (lr, mu) in enumerate(zip(rates.tolist(), momenta.tolist(), strict=True))
    ]
    axes = ("momentum", "lr") if turned else ("lr", "momentum")
    assert landscape(Results(rows), *axes, "nll").line == pytest.approx(0.6, rel=0.1)
    assert landscape(Results(rows), *axes, "nll", success=2.5).line > 0.6  # then half of the failures succeed


def test_a_line_needs_rate_and_momentum_and_failures():
    rows = [row(0.1 * i, 0.1 * i, 1.0, rho=float(i)) for i in range(1, 5)]
    assert landscape(Results(rows), "lr", "momentum", "nll", success=2.0).line is None
    with pytest.raises(UsageError, match="regions are drawn over lr and momentum, not over lr and rho"):
        _ = landscape(Results(rows), "lr", "rho", "nll").line


def test_parts_of_a_setting_are_axes():
    rows = [Row("k", {"optimizer_options.betas": (b, b * b), "seed": 0}, {"nll": b}) for b in (0.1, 0.5, 0.9)]
    found = landscape(Results(rows), "betas.0", "betas.1", "nll")
    assert (found.x_axis.short, found.y_axis.short) == ("beta1", "beta2")
    assert found.x.tolist() == [0.1, 0.5, 0.9]
    assert found.y.tolist() == pytest.approx([0.01, 0.25, 0.81])
    assert other_settings(Results(rows), "betas.0", "betas.1") == []


def test_a_study_of_descents_says_which_axes_are_logarithmic(tmp_path):
    """And in the robust region they all go at the same speed."""
    results = sweep({
        "function": "quadratic_descent", "count": 40, "parameters": {"curvature": 2.0, "steps": 400},
        "axes": {"lr": {"log_uniform": [0.01, 4.0]}, "momentum": {"uniform": [0.2, 0.9]}},
    }, out=tmp_path / "study")  # fmt: skip
    log = log_axes(tmp_path / "study", "lr", "momentum", "seed")
    assert log == {"lr": True, "momentum": False}
    assert log_axes(tmp_path, "lr") == {}
    found = landscape(Results.read(tmp_path / "study"), "momentum", "lr", "factor", log=log, success=1.0)
    assert (found.x_axis.log, found.y_axis.log, len(found.z)) == (False, True, len(results))
    low, high = robust_rates(found.x, 2.0)
    within = (found.y > 1.05 * low) & (found.y < 0.95 * high)
    assert within.sum() > 5
    np.testing.assert_allclose(found.z[within], np.sqrt(found.x[within]), rtol=0.05)
    assert (found.z[found.y > 2 * (1 + found.x) / 2.0] > 1).all()  # heavy ball's own limit, of curvature 2
    assert found.line is not None


def test_diverged_runs_of_a_sweep_keep_their_places(tmp_path):
    results = sweep({
        "run": {"model": "mlp", "hidden": [8], "train_rows": 100, "batch_size": 10, "epochs": 1, "optimizer": "sgd"},
        "axes": {"lr": [1e-4, 1e12], "optimizer_options.momentum": [0.0, 0.5]}, "samples": 2,
    }, out=tmp_path / "study")  # fmt: skip
    assert [row.state for row in results].count(DIVERGED) == 2
    found = landscape(Results.read(tmp_path / "study"), "lr", "momentum", "nll")
    assert (found.x.tolist(), found.failed_x.tolist()) == ([1e-4, 1e-4], [1e12, 1e12])
    assert found.is_grid
    assert found.line is not None


def test_mistakes():
    rows = [row(0.1 * i, 0.5, 1.0, optimizer="sgd" if i % 2 else "adam") for i in range(1, 5)]
    assert other_settings(Results(rows), "lr", "momentum") == ["optimizer"]
    with pytest.raises(UsageError, match="an axis has a number in every run, but optimizer is 'sgd' in 4"):
        landscape(Results(rows), "lr", "optimizer", "nll")
    with pytest.raises(UsageError, match="unknown column 'momentun'"):
        landscape(Results(rows), "lr", "momentun", "nll")
    with pytest.raises(UsageError, match="no run has a number"):
        landscape(Results([row(0.1, 0.5, float("nan"))]), "lr", "momentum", "nll")
