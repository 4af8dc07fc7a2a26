"""What a step has drawn is gone after it: a graph that holds itself would fill the memory in a long training."""

from __future__ import annotations

import gc

import pytest
import torch

import posterity as pt
from posterity.estimators import ESTIMATORS
from posterity.objectives import GRADIENTS
from posterity.training import Callback


class Held(Callback):
    """Bytes of all tensors after each epoch."""

    kept = False

    def __init__(self):
        self.bytes = []

    def on_epoch(self, training, record):
        gc.collect()
        tensors = [each for each in gc.get_objects() if type(each) in (torch.Tensor, torch.nn.Parameter)]
        self.bytes.append(sum(each.numel() * each.element_size() for each in tensors))


def held(posterior, **settings):
    """After the first of three epochs, and after the last."""
    model = torch.nn.Sequential(
        torch.nn.Conv2d(1, 4, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(144, 100), torch.nn.ReLU(),
        torch.nn.Linear(100, 2),
    )  # fmt: skip
    x, y = torch.randn(40, 1, 8, 8), torch.arange(40) % 2
    callback = Held()
    pt.fit(pt.bayesian(model, posterior=posterior), (x, y), epochs=3, batch_size=10, callbacks=[callback], **settings)
    return callback.bytes[0], callback.bytes[-1]


@pytest.mark.parametrize("posterior", ["mean_field", "tied"])
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_estimators(estimator, posterior):
    first, last = held(posterior, estimator=estimator)
    assert last < first + 10_000


@pytest.mark.parametrize("gradient", GRADIENTS)
@pytest.mark.parametrize("posterior", ["mean_field", "low_rank"])
def test_gradients(posterior, gradient):
    first, last = held(posterior, gradient=gradient, samples=2)
    assert last < first + 10_000
