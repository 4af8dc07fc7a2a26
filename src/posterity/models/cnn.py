"""A small convolutional network for images of any size from 4 pixels up."""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn

from posterity.core.errors import UsageError


def cnn(input_shape: Sequence[int], num_outputs: int, *, width: int = 32) -> nn.Sequential:
    """Two 3 x 3 convolutions with pooling, averages on a 4 x 4 grid, one hidden layer."""
    if len(input_shape) != 3 or min(input_shape[1:]) < 4:
        raise UsageError(f"cnn takes images (channels, height, width) of at least 4 pixels, not {tuple(input_shape)}")
    if width < 1:
        raise UsageError(f"the width of a cnn must be at least 1, not {width}")
    return nn.Sequential(
        nn.Conv2d(input_shape[0], width, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(width, 2 * width, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(4),
        nn.Flatten(),
        nn.Linear(32 * width, 4 * width), nn.ReLU(),
        nn.Linear(4 * width, num_outputs),
    )  # fmt: skip
