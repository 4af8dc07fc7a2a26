"""A small convolutional network for images of any size from 4 pixels up."""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn

from posterity.models.images import check_width, shorter_side


def cnn(input_shape: Sequence[int], num_outputs: int, *, width: int = 32) -> nn.Sequential:
    """Two 3 x 3 convolutions with pooling, averages on a 4 x 4 grid, one hidden layer."""
    shorter_side("cnn", input_shape, least=4)
    check_width("cnn", width)
    return nn.Sequential(
        nn.Conv2d(input_shape[0], width, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(width, 2 * width, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(4),
        nn.Flatten(),
        nn.Linear(32 * width, 4 * width), nn.ReLU(),
        nn.Linear(4 * width, num_outputs),
    )  # fmt: skip
