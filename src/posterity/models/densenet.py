"""DenseNet-BC for small images: every layer of a block sees the features of all layers before it.

    layer(x) = (x, H(x)),    H = norm, relu, conv 1 x 1 to 4 k, norm, relu, conv 3 x 3 to k channels
    between blocks: norm, relu, conv 1 x 1 to half the channels, averages of 2 x 2 pixels

    densenet121     blocks of 6, 12, 24, 16 layers, growth k = 32 [1, table 1], with a stem for 32 x 32: one 3 x 3
                    convolution of stride 1 to 2 k channels, no pooling (source 001, as resnet34)

`width` is the growth k: all channels are proportional to it. With fewer than 4 pixels left features are not averaged.
Convolutions have no biases, as norms follow, and PyTorch's own start: a norm takes out its scale.

[1] Huang, Liu, van der Maaten, Weinberger, Densely connected convolutional networks, 2017.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from posterity.models.images import check_width, shorter_side, strides

LEAST = 8
DEPTHS = (6, 12, 24, 16)


class DenseLayer(nn.Module):
    """`growth` new features behind those that it is given."""

    def __init__(self, n_in: int, growth: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.BatchNorm2d(n_in), nn.ReLU(), nn.Conv2d(n_in, 4 * growth, 1, bias=False),
            nn.BatchNorm2d(4 * growth), nn.ReLU(), nn.Conv2d(4 * growth, growth, 3, padding=1, bias=False),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        """(n, n_in + growth, height, width)."""
        return torch.cat((x, self.body(x)), 1)


def densenet121(input_shape: Sequence[int], num_outputs: int, *, width: int = 32) -> nn.Sequential:
    """121 layers, 7 million weights; images of at least 8 pixels, `width` new channels in each layer."""
    side = shorter_side("densenet121", input_shape, least=LEAST)
    check_width("densenet121", width)
    channels = 2 * width
    parts: OrderedDict[str, nn.Module] = OrderedDict(stem=nn.Conv2d(input_shape[0], channels, 3, padding=1, bias=False))
    for number, (depth, stride) in enumerate(zip(DEPTHS, [1, *strides(side, len(DEPTHS) - 1)], strict=True), 1):
        if number > 1:
            parts[f"transition{number - 1}"] = _transition(channels, stride)
            channels //= 2
        parts[f"block{number}"] = nn.Sequential(*(DenseLayer(channels + i * width, width) for i in range(depth)))
        channels += depth * width
    pooled = nn.BatchNorm2d(channels), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()
    return nn.Sequential(OrderedDict(**parts, pool=nn.Sequential(*pooled), head=nn.Linear(channels, num_outputs)))


def _transition(n_in: int, stride: int) -> nn.Sequential:
    halved = nn.BatchNorm2d(n_in), nn.ReLU(), nn.Conv2d(n_in, n_in // 2, 1, bias=False)
    return nn.Sequential(*halved, *([nn.AvgPool2d(2)] if stride == 2 else []))
