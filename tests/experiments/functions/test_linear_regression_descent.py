"""SGD on a linear regression: a step by hand, no noise in whole batches, and the floor that a constant rate leaves."""

import numpy as np
import pytest

from posterity.core.errors import UsageError
from posterity.core.randomness import derive
from posterity.experiments.functions.linear_regression_descent import linear_regression_descent


def test_two_steps_with_momentum_by_hand() -> None:
    options = {"rows": 4, "inputs": 1, "batch_size": 4, "epochs": 2, "lr": 0.1, "momentum": 0.5, "seed": 3}
    found = linear_regression_descent(schedule="constant", **options)
    random = np.random.default_rng(derive(3, "linear regression"))
    x, truth = random.standard_normal((4, 1))[:, 0], random.standard_normal(1)[0]
    y = x * truth + 0.5 * random.standard_normal(4)
    h, best = (x**2).mean(), (x * y).sum() / (x * x).sum()
    first = 0.1 * h * best
    second = first - 0.1 * (0.5 * -h * best + h * (first - best))
    expected = [h * (w - best) ** 2 / 2 for w in (first, second)]
    assert [record["excess"] for record in found["history"]] == pytest.approx(expected)


def test_whole_batches_leave_no_excess_and_small_ones_do_unless_the_rate_falls() -> None:
    def log_excess(schedule: str, batch_size: int) -> float:
        return linear_regression_descent(schedule=schedule, batch_size=batch_size, epochs=200)["log_excess"]

    assert log_excess("constant", 200) < -12
    assert log_excess("constant", 10) > -4
    assert log_excess("cosine", 10) < log_excess("constant", 10) - 1


def test_the_rate_follows_the_schedule() -> None:
    history = linear_regression_descent(schedule="step", epochs=8, lr=0.2)["history"]
    assert [record["rate"] for record in history] == pytest.approx([0.2] * 4 + [0.02] * 2 + [0.002] * 2)
    ramp = linear_regression_descent(schedule="constant", warmup=0.5, epochs=4, rows=20, batch_size=20, lr=0.2)
    assert [record["rate"] for record in ramp["history"]] == pytest.approx([0.0, 0.1, 0.2, 0.2])


def test_rows_that_make_no_whole_batches_are_refused() -> None:
    with pytest.raises(UsageError, match="multiple of batch_size"):
        linear_regression_descent(schedule="constant", rows=205)
