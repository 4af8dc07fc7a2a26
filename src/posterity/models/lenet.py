"""LeNet-5 with ReLU and max pooling, for images of 32, 28 or 8 pixels.

32 x 32: as published.   28 x 28: the first convolution pads by 2, then the same.
8 x 8:   5 x 5 padded by 2, pool, 3 x 3 padded by 1, pool: the same layers on 2 x 2 x 16 features.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn

from posterity.models.images import square_side


def lenet5(input_shape: Sequence[int], num_outputs: int) -> nn.Sequential:
    """Two convolutions and three linear maps; `input_shape` is (channels, 32 | 28 | 8, the same)."""
    channels, side = input_shape[0], square_side("lenet5", input_shape)
    first = nn.Conv2d(channels, 6, 5, padding=0 if side == 32 else 2)
    second = nn.Conv2d(6, 16, 3, padding=1) if side == 8 else nn.Conv2d(6, 16, 5)
    return nn.Sequential(
        first, nn.ReLU(), nn.MaxPool2d(2),
        second, nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(64 if side == 8 else 400, 120), nn.ReLU(),
        nn.Linear(120, 84), nn.ReLU(),
        nn.Linear(84, num_outputs),
    )  # fmt: skip
