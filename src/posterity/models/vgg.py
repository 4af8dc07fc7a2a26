"""VGG for small images: five stages of 3 x 3 convolutions, each ended by max pooling, and one linear classifier.

    channels    width, 2 width, 4 width, 8 width, 8 width                    width 64 as published
    vgg11       1, 1, 2, 2, 2 convolutions in a stage                        [1, table 1, A]
    vgg19       2, 2, 4, 4, 4                                                [1, table 1, E]

32 x 32: the published convolutions; the features are 8 width x 1 x 1, so that one linear map takes the place of the
         three that [1] has for 224 x 224, as is usual on CIFAR.
28 x 28: the first convolution pads by 3, then the same.
8 x 8:   stages 3 and 4 do not pool, then the same.

Convolutions start from N(0, 2 / fan_in) with zero biases [2], which keeps the size of the features through all layers.
From PyTorch's own start, N(0, 1 / (3 fan_in)), each layer has 1/6 of the variance of the one before: without batch norm
nothing of the image would arrive at the end of vgg19.

[1] Simonyan and Zisserman, Very deep convolutional networks for large-scale image recognition, 2015.
[2] He, Zhang, Ren, Sun, Delving deep into rectifiers, 2015.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from torch import nn

from posterity.models.images import check_width, square_side, strides

A, E = (1, 1, 2, 2, 2), (2, 2, 4, 4, 4)
CHANNELS = (1, 2, 4, 8, 8)  # in widths
WIDTH = 64


class HeConv2d(nn.Conv2d):
    """A convolution that starts from N(0, 2 / fan_in) and zero biases, also when it is drawn anew."""

    def reset_parameters(self) -> None:
        """Draw the weights."""
        nn.init.kaiming_normal_(self.weight, nonlinearity="relu")
        if self.bias is not None:
            nn.init.zeros_(self.bias)


def vgg11(
    input_shape: Sequence[int], num_outputs: int, *, width: int = WIDTH, batch_norm: bool = False
) -> nn.Sequential:
    """Eight convolutions; `input_shape` is (channels, 32 | 28 | 8, the same), `width` the channels of the first."""
    return _vgg("vgg11", A, input_shape, num_outputs, width, batch_norm)


def vgg19(
    input_shape: Sequence[int], num_outputs: int, *, width: int = WIDTH, batch_norm: bool = False
) -> nn.Sequential:
    """Sixteen convolutions; `input_shape` is (channels, 32 | 28 | 8, the same), `width` the channels of the first."""
    return _vgg("vgg19", E, input_shape, num_outputs, width, batch_norm)


def _vgg(
    model: str, depths: Sequence[int], input_shape: Sequence[int], num_outputs: int, width: int, batch_norm: bool
) -> nn.Sequential:
    side = square_side(model, input_shape)
    check_width(model, width)
    n_in, padding = input_shape[0], 3 if side == 28 else 1
    pools = [*strides(side + 2 * (padding - 1), len(depths) - 1), 2]
    stages: OrderedDict[str, nn.Module] = OrderedDict()
    for number, (depth, widths, pool) in enumerate(zip(depths, CHANNELS, pools, strict=True), 1):
        layers: list[nn.Module] = []
        for _ in range(depth):
            n_out = widths * width
            layers += [HeConv2d(n_in, n_out, 3, padding=padding)]
            layers += [nn.BatchNorm2d(n_out), nn.ReLU()] if batch_norm else [nn.ReLU()]
            n_in, padding = n_out, 1
        stages[f"stage{number}"] = nn.Sequential(*layers, *([nn.MaxPool2d(2)] if pool == 2 else []))
    return nn.Sequential(OrderedDict(**stages, flatten=nn.Flatten(), head=nn.Linear(n_in, num_outputs)))
