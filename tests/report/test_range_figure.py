"""The figure of a range test."""

from dataclasses import replace

from posterity.report import range_figure
from posterity.training import RangeTest

RESULT = RangeTest("all", "nll", [1e-3, 1e-2, 1e-1, 1.0], [2.0, 1.0, 0.5, 90.0], [1.5, 1.5, 1.0, 1.0], None, 1.0)


def test_it_shows_all_losses_before_the_break_and_only_a_real_suggestion():
    (axes,) = range_figure(RESULT, "mlp on digits").axes
    assert [line.get_label() for line in axes.lines] == ["each batch", "smoothed"]
    low, high = axes.get_ylim()
    assert low < 0.5
    assert 2 < high < 3
    assert axes.get_ylabel() == "nll per datum (nats)"
    assert axes.get_title() == "mlp on digits"
    (axes,) = range_figure(replace(RESULT, suggestion=1e-2, diverged=None, measure="loss")).axes
    assert axes.lines[-1].get_label() == "suggested: 0.01"
    assert axes.get_ylabel() == "negative ELBO per datum (nats)"


def test_it_shows_a_test_that_broke_at_once():
    (axes,) = range_figure(replace(RESULT, rates=[1e-3], losses=[2.0], smoothed=[2.0], diverged=1e-3)).axes
    assert axes.get_ylim()[0] < 2 < axes.get_ylim()[1]
