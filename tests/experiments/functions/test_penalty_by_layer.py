"""Factors by layer: the quadrature against known integrals, and each matrix of a network."""

from __future__ import annotations

import math

import pytest

from posterity.experiments.functions.penalty_by_layer import computed_factor, penalty_by_layer


@pytest.mark.parametrize("d", [1, 2, 25, 400])
def test_the_quadrature_gives_the_gamma_law_s_factor(d):
    """exp(-lambda ||w||) over d weights: the norm is Gamma(d, 1/lambda), its second moment d (d + 1) / lambda^2."""
    assert computed_factor(1, d, 1 / 50) == pytest.approx(math.sqrt((d + 1) * 50), rel=1e-7)


def test_the_quadrature_gives_the_normal_law_s_factor():
    assert computed_factor(2, 1, 1 / 50) == pytest.approx(25, rel=1e-7)


def test_a_record_a_matrix_with_its_inputs_and_groups():
    found = penalty_by_layer(penalty="group_lasso_columns", model="lenet5", side=28)
    records = found["history"]
    assert [r["inputs"] for r in records] == [25, 150, 400, 120, 84]
    assert [r["group"] for r in records] == [150, 400, 120, 84, 10]
    assert records[0]["theory"] == pytest.approx(math.sqrt(151 * 25))
    assert found["deviation"] < 1e-6
    assert abs(found["sampled"]) < 0.05


def test_the_edge_of_chaos_has_twice_the_variance():
    for penalty, ratio in (("l2", 0.5), ("l1", math.sqrt(0.5))):
        one, other = (
            penalty_by_layer(penalty=penalty, side=8, draws=1, variance=v) for v in ("glorot", "edge-of-chaos")
        )
        for left, right in zip(one["history"], other["history"], strict=True):
            assert right["theory"] / left["theory"] == pytest.approx(ratio)
        assert other["deviation"] < 1e-6
