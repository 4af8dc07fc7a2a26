"""Regions of robustness and stability, by iterating momentum descent on quadratics."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from posterity.core.errors import UsageError
from posterity.optim import fit_stable_rate, robust_rates, stable_rate


def errors(lr, momentum, curvature, steps):
    """|w| after each of `steps` steps from w = 1 on curvature w^2 / 2."""
    w, u, path = 1.0, 0.0, []
    for _ in range(steps):
        u = momentum * u + curvature * w
        w -= lr * u
        path.append(abs(w))
    return np.array(path)


def speed(lr, momentum, curvature):
    """Factor by which the error shrinks in a step, over many."""
    path = errors(lr, momentum, curvature, 400)
    return (path[300:].max() / path[100:200].max()) ** (1 / 200)


def radius(lr, momentum, curvature):
    """Spectral radius of the step (w, w_before) -> (w - lr h w + mu (w - w_before), w)."""
    step = np.array([[1 - lr * curvature + momentum, -momentum], [1.0, 0.0]])
    return np.abs(np.linalg.eigvals(step)).max()


@given(
    momentum=st.floats(0.01, 0.99),
    curvature=st.floats(1e-3, 1e3),
    share=st.floats(0.001, 0.999),
    beyond=st.floats(0.01, 3),
)
def test_the_radius_is_the_root_of_the_momentum_within_and_larger_without(momentum, curvature, share, beyond):
    low, high = (rate.item() for rate in robust_rates(momentum, curvature))
    root = math.sqrt(momentum)
    assert radius(low + share * (high - low), momentum, curvature) == pytest.approx(root, rel=1e-6)
    assert radius(high * (1 + beyond), momentum, curvature) > root * (1 + 1e-4)
    assert radius(low / (1 + beyond), momentum, curvature) > root * (1 + 1e-6)


@given(momentum=st.floats(0, 0.99), curvature=st.floats(1e-3, 1e3), share=st.floats(0.001, 0.999))
def test_heavy_ball_is_stable_below_two_and_two_momenta(momentum, curvature, share):
    most = 2 * (1 + momentum) / curvature
    assert radius(share * most, momentum, curvature) < 1
    assert radius(most * (2 - share), momentum, curvature) > 1
    assert stable_rate(momentum, 2 / curvature) <= most  # the line is within it


@pytest.mark.parametrize("curvature", [0.1, 1.0, 30.0])
@pytest.mark.parametrize("momentum", [0.5, 0.8, 0.9])
def test_within_the_region_the_error_falls_as_the_root_of_the_momentum(momentum, curvature):
    low, high = robust_rates(momentum, curvature)
    for share in (0.02, 0.3, 0.7, 0.98):
        assert speed(low + share * (high - low), momentum, curvature) == pytest.approx(math.sqrt(momentum), rel=0.02)
    for outside in (low * 0.8, high * 1.05):
        assert speed(outside, momentum, curvature) > 1.02 * math.sqrt(momentum)


def test_of_several_curvatures_it_is_what_they_have_in_common():
    low, high = robust_rates(0.81, 1.0, 4.0, 2.0)
    assert (low, high) == pytest.approx(((1 - 0.9) ** 2, (1 + 0.9) ** 2 / 4))
    for curvature in (1.0, 2.0, 4.0):
        assert speed(0.5 * (low + high), 0.81, curvature) == pytest.approx(0.9, rel=0.02)
    narrow, wide = robust_rates(0.01, 1.0, 100.0)
    assert narrow > wide  # none is robust for both


def test_limits_by_hand():
    assert [v.item() for v in robust_rates(0.0, 4.0)] == [0.25, 0.25]
    assert [v.item() for v in robust_rates(1.0, 4.0)] == [0.0, 1.0]
    assert stable_rate([0.0, 0.75, 1.0], 0.4).tolist() == pytest.approx([0.4, 0.1, 0.0])
    assert robust_rates(np.linspace(0, 1, 5), 2.0)[0].shape == (5,)


@pytest.mark.parametrize("momentum", [0.0, 0.3, 0.9, 0.99])
def test_below_the_line_a_quadratic_converges(momentum):
    """a = 2 / h is where descent without momentum begins to diverge."""
    curvature = 3.0
    rate = stable_rate(momentum, 2 / curvature).item()
    assert errors(0.95 * rate, momentum, curvature, 4000)[-1] < 1e-6
    if momentum == 0:
        assert errors(1.05 * rate, momentum, curvature, 400)[-1] > 1e6


def test_on_the_line_steps_add_up_to_the_largest_rate():
    w, u, momentum = 0.0, 0.0, 0.8
    lr = stable_rate(momentum, 0.5).item()
    for _ in range(200):
        u = momentum * u + 1.0
        before, w = w, w - lr * u
    assert before - w == pytest.approx(0.5)


def runs(largest, n=400, *, lowest=0.0, seed=0):
    """Rates, momenta, and whether a run succeeded that must stay below the line of `largest`, and above `lowest`."""
    rng = np.random.default_rng(seed)
    lr, momentum = rng.uniform(0, 2 * largest, n), rng.uniform(0, 0.99, n)
    return lr, momentum, (lr <= stable_rate(momentum, largest)) & (lr >= lowest)


@pytest.mark.parametrize("largest", [0.45, 1.9])
def test_the_line_is_found_again(largest):
    lr, momentum, success = runs(largest)
    found = fit_stable_rate(lr, momentum, success)
    assert found == pytest.approx(largest, rel=0.05)
    assert np.array_equal(lr <= stable_rate(momentum, found), success)  # it parts them


def test_rates_that_are_too_low_do_not_move_it():
    assert fit_stable_rate(*runs(0.5, 4000, lowest=0.2)) == pytest.approx(0.5, rel=0.02)


def test_a_line_by_hand():
    """One failure among lower steps costs less than two successes above it; of equals the lower line."""
    lr, still = [1, 2, 4, 6, 8], [0] * 5
    assert fit_stable_rate(lr, still, [True, False, True, True, False]) == pytest.approx(math.sqrt(48))
    assert fit_stable_rate(lr[:4], still[:4], [True, False, True, False]) == pytest.approx(math.sqrt(2))
    assert fit_stable_rate([1, 1], [0, 0.5], [True, False]) == pytest.approx(math.sqrt(2))
    # No threshold is between equal steps.
    assert fit_stable_rate([1, 2, 2, 8], [0, 0, 0, 0], [True, True, False, False]) == pytest.approx(math.sqrt(2))


@pytest.mark.parametrize("success", [[True, True, True], [False, False, False], [False, False, True]])
def test_no_line_where_no_run_failed_above_one(success):
    assert fit_stable_rate([0.1, 0.2, 0.3], [0, 0, 0], success) is None


def test_the_line_of_descent_on_a_quadratic_without_momentum():
    """Where descent diverges, a is 2 / h."""
    rates = np.linspace(0.05, 1.5, 59)
    success = [errors(lr, 0.0, 4.0, 200)[-1] < 1e-2 for lr in rates]
    assert fit_stable_rate(rates, np.zeros(59), success) == pytest.approx(0.5, abs=0.03)


def test_mistakes():
    with pytest.raises(UsageError, match="one success or failure"):
        fit_stable_rate([0.1, 0.2], [0, 0], [True])
    with pytest.raises(UsageError, match="positive rate"):
        fit_stable_rate([0.0, 0.2], [0, 0], [True, False])
    with pytest.raises(UsageError, match="one curvature or more"):
        robust_rates(0.9)
    with pytest.raises(UsageError, match="curvature must be positive and finite, got -1"):
        robust_rates(0.9, -1.0)
    with pytest.raises(UsageError, match=r"momentum must lie in \[0, 1\], got 1.5"):
        stable_rate(1.5, 1.0)
    with pytest.raises(UsageError, match="largest rate"):
        stable_rate(0.5, 0.0)
