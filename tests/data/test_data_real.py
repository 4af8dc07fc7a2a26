"""The real data sets, through the product's own fetch and the user's cache, against known facts.

Skipped, with the reason, where a data set is out of reach.
"""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
import torch

from posterity import data
from posterity.core.errors import FetchError, UsageError
from posterity.data import cifar, uci
from posterity.data.sources import obtain


def fetched(name):
    try:
        return data.fetch(name, progress=False)
    except FetchError as error:
        pytest.skip(f"out of reach: {error}")


def assert_described(name, splits):
    info = next(info for info in data.describe() if info.name == name)
    assert info.available
    assert (len(splits.train), len(splits.test)) == (info.num_train, info.num_test)
    for part in (splits.train, splits.test):
        assert (part.input_shape, part.num_classes, part.task) == (info.shape, info.num_classes, info.task)


def test_mnist():
    fetched("mnist")
    splits = data.load("mnist")
    assert_described("mnist", splits)
    counts = [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    assert torch.bincount(splits.train.y).tolist() == counts
    assert splits.train.y[:5].tolist() == [5, 0, 4, 1, 9]
    assert splits.test.y[:5].tolist() == [7, 2, 1, 0, 4]
    scale = data.Standardisation.of(splits.train)
    assert scale.x_mean.item() / 255 == pytest.approx(0.1307, abs=5e-5)
    assert scale.x_sd.item() / 255 == pytest.approx(0.3081, abs=5e-5)


def test_fashion_mnist():
    fetched("fashion-mnist")
    splits = data.load("fashion-mnist")
    assert_described("fashion-mnist", splits)
    assert torch.bincount(splits.train.y).tolist() == [6000] * 10
    assert splits.train.y[:5].tolist() == [9, 0, 0, 3, 0]
    scale = data.Standardisation.of(splits.train)
    assert scale.x_mean.item() / 255 == pytest.approx(0.2860, abs=5e-5)
    assert scale.x_sd.item() / 255 == pytest.approx(0.3530, abs=5e-5)


def test_cifar10():
    fetched("cifar10")
    splits = data.load("cifar10")
    assert_described("cifar10", splits)
    assert torch.bincount(splits.train.y).tolist() == [5000] * 10
    assert splits.train.y[:5].tolist() == [6, 9, 9, 4, 1]
    assert splits.test.y[:5].tolist() == [3, 8, 8, 0, 6]
    scale = data.Standardisation.of(splits.train)
    np.testing.assert_allclose(scale.x_mean.flatten() / 255, [0.4914, 0.4822, 0.4465], atol=5e-5)
    np.testing.assert_allclose(scale.x_sd.flatten() / 255, [0.2470, 0.2435, 0.2616], atol=5e-5)


def test_cifar10_is_byte_for_byte_the_binary_version():
    fetched("cifar10")
    first = obtain(cifar.CIFAR10, ("train",))["train"][:10000]
    published = "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5"
    assert hashlib.sha256(first.tobytes()).hexdigest() == published


def test_cifar100():
    fetched("cifar100")
    splits = data.load("cifar100")
    assert_described("cifar100", splits)
    assert torch.bincount(splits.train.y).tolist() == [500] * 100


@pytest.mark.parametrize("name", ["kmnist", "notmnist"])
def test_sets_with_test_data_only(name):
    fetched(name)
    test = data.load_test(name)
    assert (len(test), test.input_shape, test.x.max().item()) == (10000, (1, 28, 28), 255)
    assert torch.bincount(test.y).tolist() == [1000] * 10


@pytest.mark.parametrize("name", uci.SETS)
def test_uci(name):
    fetched(name)
    splits, other = data.load(name), data.load(name, split=4)
    assert_described(name, splits)
    assert splits.train.y.shape[1] == 1
    assert splits.train.x.dtype == splits.train.y.dtype == torch.float32
    assert not torch.equal(splits.test.x, other.test.x)
    with pytest.raises(UsageError, match=rf"split {uci.SETS[name].num_splits} of '{name}' does not exist"):
        data.load(name, split=uci.SETS[name].num_splits)
