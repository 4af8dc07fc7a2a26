"""AdaBayes' rates beside their fixed point: made-up weights by hand, and a small network."""

from __future__ import annotations

import math

import pytest
import torch

from posterity.experiments.functions.adabayes_rates import adabayes_rates, compare_rates
from posterity.optim.adabayes import steady_precision

ETA, S2 = 1e-3, 1e-3


def weights(u):
    """Mean squares with x / s2 = u, 100 weights each."""
    return (ETA / (S2 * torch.tensor(u, dtype=torch.float64))).square().repeat_interleave(100)


def test_rates_at_the_fixed_point_have_no_bias_and_reach_both_limits():
    square = weights([1e-2, 1.1, 1e2])
    found = compare_rates(1 / steady_precision(square, ETA, S2), square, eta=ETA, s2=S2)
    assert found["bias"] == pytest.approx(0, abs=1e-12)
    assert found["spread"] == pytest.approx(0, abs=1e-12)
    assert found["sgd"] == pytest.approx(1, abs=1e-3)
    assert found["adam"] == pytest.approx(1, abs=1e-2)
    assert (found["share_sgd"], found["share_adam"]) == (pytest.approx(1 / 3), pytest.approx(1 / 3))
    assert [record["weights"] for record in found["history"]] == [100, 100, 100]
    assert found["history"][-1]["rate"] == pytest.approx(math.log10(S2), abs=1e-3)


def test_bias_and_spread_by_hand():
    square = weights([1.1, 1e2])
    rate = 1 / steady_precision(square, ETA, S2)
    rate[:100] *= 10 ** torch.linspace(0.0, 1.0, 100, dtype=torch.float64)
    found = compare_rates(rate, square, eta=ETA, s2=S2)
    assert found["bias"] == pytest.approx(0.5)
    assert found["spread"] == pytest.approx(0.4)
    assert "adam" not in found


def test_weights_without_a_gradient_and_bins_of_a_few_do_not_count():
    square = torch.cat([weights([1.1])[:60], weights([50.0])[:10], torch.zeros(30, dtype=torch.float64)])
    found = compare_rates(torch.full_like(square, S2), square, eta=ETA, s2=S2)
    assert found["share_moved"] == pytest.approx(0.7)
    assert len(found["history"]) == 1


def test_a_network_whose_rates_have_not_been_moved_yet_has_nearly_those_of_sgd():
    """After one step s2_post = 1 / (1/s2 + g^2), while <g^2> = g^2."""
    found = adabayes_rates(width=2, steps=1, batch_size=100, lr_sgd=1e-4, rows=300)
    assert found["sgd"] == pytest.approx(1, abs=1e-3)
    once, again = (adabayes_rates(width=2, steps=3, batch_size=50, rows=200, seed=1) for _ in range(2))
    assert once == again
