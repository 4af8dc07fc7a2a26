"""Synthetic problems whose answers are known.

gap        y = sin(4 x) + 0.3 x + 0.1 e,  x uniform on [-2, -0.7] and [0.5, 2]: uncertainty must
           grow where there are no inputs
two-moons  two interleaved half circles with Gaussian noise of sd 0.1
and        the truth table of AND
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from posterity.data.dataset import Dataset
from posterity.data.entry import Entry
from posterity.data.splits import Splits

GAP = (-0.7, 0.5)
GAP_NOISE = 0.1
_GAP_EDGE = 2.0
_NUM_TRAIN = {"gap": 100, "two-moons": 400}
_NUM_TEST = 200


def gap_mean(x: Tensor) -> Tensor:
    """The noiseless function behind `gap`."""
    return (4 * x).sin() + 0.3 * x


def gap(seed: int = 0) -> Splits:
    """1-d regression; the test inputs have the same gap as the training inputs."""
    generator = torch.Generator().manual_seed(seed)
    return Splits(_gap_part(_NUM_TRAIN["gap"], generator), _gap_part(_NUM_TEST, generator))


def two_moons(seed: int = 0) -> Splits:
    """2-d classification with 2 classes."""
    generator = torch.Generator().manual_seed(seed)
    return Splits(_moons_part(_NUM_TRAIN["two-moons"], generator), _moons_part(_NUM_TEST, generator))


def truth_table_and() -> Splits:
    """AND of two bits, a binary task; training and test data are the same four rows."""
    x = torch.tensor([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    table = Dataset(x, x.prod(dim=1), "binary", name="and")
    return Splits(table, table, raw=True)


def _gap_part(count: int, generator: torch.Generator) -> Dataset:
    left, right = GAP
    width = right - left
    # Uniform on the two sides: draw on an interval shortened by the gap, and step over it.
    x = torch.rand(count, 1, generator=generator) * (2 * _GAP_EDGE - width) - _GAP_EDGE
    x = torch.where(x > left, x + width, x)
    noise = torch.randn(count, 1, generator=generator)
    return Dataset(x, gap_mean(x) + GAP_NOISE * noise, "regression", name="gap")


def _moons_part(count: int, generator: torch.Generator) -> Dataset:
    y = torch.arange(count) % 2
    angle = math.pi * torch.rand(count, generator=generator)
    upper = torch.stack([angle.cos(), angle.sin()], dim=1)
    lower = torch.tensor([1.0, 0.5]) - upper
    x = torch.where(y.unsqueeze(1) == 0, upper, lower) + 0.1 * torch.randn(count, 2, generator=generator)
    return Dataset(x, y, "classification", 2, "two-moons")


DATASETS = {
    "gap": Entry(
        task="regression", shape=(1,), num_train=_NUM_TRAIN["gap"], num_test=_NUM_TEST, load=gap, options=("seed",)
    ),
    "two-moons": Entry(
        task="classification",
        shape=(2,),
        num_train=_NUM_TRAIN["two-moons"],
        num_test=_NUM_TEST,
        num_classes=2,
        load=two_moons,
        options=("seed",),
    ),
    # Its inputs stay bits, as those of the perceptron that learns it.
    "and": Entry(task="binary", shape=(2,), num_train=4, num_test=4, load=truth_table_and),
}
