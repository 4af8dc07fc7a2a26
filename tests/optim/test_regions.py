"""Regions of robustness and stability, by iterating momentum descent on quadratics."""

import math

import numpy as np
import pytest

from posterity.core.errors import UsageError
from posterity.optim import robust_rates, stable_rate


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


def test_mistakes():
    with pytest.raises(UsageError, match="one curvature or more"):
        robust_rates(0.9)
    with pytest.raises(UsageError, match="curvature must be positive and finite, got -1"):
        robust_rates(0.9, -1.0)
    with pytest.raises(UsageError, match=r"momentum must lie in \[0, 1\], got 1.5"):
        stable_rate(1.5, 1.0)
    with pytest.raises(UsageError, match="largest rate"):
        stable_rate(0.5, 0.0)
