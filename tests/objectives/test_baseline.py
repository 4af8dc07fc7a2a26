"""Moving baselines."""

import pytest
import torch

import posterity as pt


def test_moving_baseline_is_the_average_of_what_went_before():
    baseline = pt.MovingBaseline(decay=0.5)
    assert baseline.next("nll", torch.tensor([1.0, 3.0])) == 0.0
    assert baseline.next("nll", torch.tensor([5.0])) == 2.0
    assert baseline.next("nll", torch.tensor([0.0])) == pytest.approx((0.5 * 2 + 5) / 1.5)
    assert baseline.next("kl", torch.tensor([7.0])) == 0.0
    other = pt.MovingBaseline(decay=0.5)
    other.restore(baseline.state())
    assert other.next("nll", torch.tensor([0.0])) == baseline.next("nll", torch.tensor([0.0]))
