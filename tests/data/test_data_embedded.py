from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from posterity.data import Standardisation, load
from posterity.data.synthetic import GAP, GAP_NOISE, gap, gap_mean, truth_table_and, two_moons
from posterity.data.tabular import diabetes, digits


def test_digits_are_split_within_classes_and_nothing_is_lost():
    splits = digits()
    assert (len(splits.train), len(splits.test)) == (1437, 360)
    assert splits.train.input_shape == (1, 8, 8)
    counts = torch.bincount(splits.train.y) / torch.bincount(splits.test.y)
    assert (counts - 4).abs().max() < 0.2
    together = torch.cat([splits.train.x, splits.test.x]).flatten(1).numpy()
    everything = load_digits().data
    assert np.array_equal(np.sort(together.sum(1)), np.sort(everything.sum(1)))
    assert torch.equal(digits().test.x, splits.test.x)


def test_diabetes_is_regression_in_natural_units():
    splits = diabetes()
    assert (len(splits.train), len(splits.test), splits.train.input_shape) == (353, 89, (10,))
    assert splits.train.task == "regression"
    assert splits.train.x[:, 0].min() > 18


def test_gap_leaves_a_gap_and_has_the_noise_it_says():
    splits = gap()
    for part in (splits.train, splits.test):
        x = part.x.flatten()
        assert not ((x > GAP[0] + 1e-6) & (x < GAP[1] - 1e-6)).any()
        assert (x < GAP[0]).sum() > 20
        assert (x > GAP[1]).sum() > 20
        assert x.abs().max() <= 2
    residual = splits.test.y - gap_mean(splits.test.x)
    assert abs(residual.std().item() / GAP_NOISE - 1) < 0.2


def test_synthetic_data_follow_the_seed():
    for make in (gap, two_moons):
        assert torch.equal(make(1).train.x, make(1).train.x)
        assert not torch.equal(make(1).train.x, make(2).train.x)


def test_moons_are_separable_but_not_by_a_line():
    data = two_moons().train
    assert torch.bincount(data.y).tolist() == [200, 200]
    centre = torch.tensor([[0.0, 0.0], [1.0, 0.5]])[data.y]
    assert ((data.x - centre).norm(dim=1) - 1).abs().max() < 0.5


def test_the_table_of_and():
    splits = truth_table_and()
    assert splits.train.task == "binary"
    assert splits.train.y.tolist() == [0, 0, 0, 1]
    assert splits.train.x.tolist() == [[0, 0], [0, 1], [1, 0], [1, 1]]


@pytest.mark.parametrize("name", ["digits", "diabetes", "gap", "two-moons", "and"])
def test_each_standardises_to_mean_0_and_sd_1(name):
    train = load(name).train
    scaled = Standardisation.of(train).apply(train)
    over = [0, *range(2, scaled.x.ndim)]
    torch.testing.assert_close(scaled.x.mean(over), torch.zeros(scaled.x.shape[1]), atol=1e-4, rtol=0)
    torch.testing.assert_close(scaled.x.std(over, correction=0), torch.ones(scaled.x.shape[1]))
