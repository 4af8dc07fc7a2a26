"""Residual networks for small images: a 3 x 3 stem, stages of blocks, averages over all pixels, a linear classifier.

    block(x) = relu(F(x) + S(x)),    F = conv 3 x 3, norm, relu, conv 3 x 3, norm

    resnet20    3, 3, 3 blocks of width, 2 width, 4 width channels, width 16 [1, section 4.2]
                S: every second pixel, and zeros for the channels that x does not have (option A): no weights
    resnet34    3, 4, 6, 3 blocks of width, ..., 8 width channels, width 64 [1, table 1], with a stem for 32 x 32: one
                3 x 3 convolution of stride 1, no pooling (source 001, with the networks of AdaBound's authors)
                S: conv 1 x 1 and norm where shapes differ (option B)

The first block of each stage but the first halves height and width; with fewer than 4 pixels left it does not.
Convolutions have no biases, as a norm follows each, and PyTorch's own start: a norm takes out its scale.

Limit: with F = 0 a block of one shape is the relu of its input, so that depth alone does no harm.

[1] He, Zhang, Ren, Sun, Deep residual learning for image recognition, 2016.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from posterity.models.images import check_width, shorter_side, strides

LEAST = 8


class PaddedIdentity(nn.Module):
    """Shortcut A: every `stride`-th pixel, then `more` channels of zeros."""

    def __init__(self, n_in: int, n_out: int, stride: int) -> None:
        super().__init__()
        self.more, self.stride = n_out - n_in, stride

    def forward(self, x: Tensor) -> Tensor:
        """(n, n_out, height / stride, width / stride)."""
        return F.pad(x[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, 0, self.more))

    def extra_repr(self) -> str:
        """One line for printing."""
        return f"more={self.more}, stride={self.stride}"


def projection(n_in: int, n_out: int, stride: int) -> nn.Sequential:
    """Shortcut B: a linear map of the channels at every `stride`-th pixel."""
    # The pixels are taken before the convolution, not by its stride: with fewer than 8 or 16 channels the gradient of a
    # 1 x 1 convolution with a stride writes outside its memory on a CPU, channels-last (oneDNN, issue 6035).
    pixels = PaddedIdentity(n_in, n_in, stride)
    return nn.Sequential(pixels, nn.Conv2d(n_in, n_out, 1, bias=False), nn.BatchNorm2d(n_out))


Shortcut = Callable[[int, int, int], nn.Module]


class Block(nn.Module):
    """Two convolutions, added to a shortcut where shapes differ and else to the input itself."""

    def __init__(self, n_in: int, n_out: int, *, stride: int, shortcut: Shortcut) -> None:
        super().__init__()
        self.body = nn.Sequential(*_normed(n_in, n_out, stride), nn.ReLU(), *_normed(n_out, n_out, 1))
        self.shortcut = nn.Identity() if (n_in, stride) == (n_out, 1) else shortcut(n_in, n_out, stride)

    def forward(self, x: Tensor) -> Tensor:
        """(n, n_out, height / stride, width / stride)."""
        return torch.relu(self.body(x) + self.shortcut(x))


def resnet20(input_shape: Sequence[int], num_outputs: int, *, width: int = 16) -> nn.Sequential:
    """Twenty layers, 0.27 million weights; images of at least 8 pixels, `width` channels in the first stage."""
    return _resnet("resnet20", (3, 3, 3), PaddedIdentity, input_shape, num_outputs, width)


def resnet34(input_shape: Sequence[int], num_outputs: int, *, width: int = 64) -> nn.Sequential:
    """Thirty-four layers, 21 million weights; images of at least 8 pixels, `width` channels in the first stage."""
    return _resnet("resnet34", (3, 4, 6, 3), projection, input_shape, num_outputs, width)


def _resnet(
    model: str, depths: Sequence[int], shortcut: Shortcut, input_shape: Sequence[int], num_outputs: int, width: int
) -> nn.Sequential:
    side = shorter_side(model, input_shape, least=LEAST)
    check_width(model, width)
    parts: OrderedDict[str, nn.Module] = OrderedDict(stem=nn.Sequential(*_normed(input_shape[0], width, 1), nn.ReLU()))
    n_in = width
    for number, (depth, stride) in enumerate(zip(depths, [1, *strides(side, len(depths) - 1)], strict=True)):
        n_out = width * 2**number
        first = Block(n_in, n_out, stride=stride, shortcut=shortcut)
        others = (Block(n_out, n_out, stride=1, shortcut=shortcut) for _ in range(depth - 1))
        parts[f"stage{number + 1}"] = nn.Sequential(first, *others)
        n_in = n_out
    pooled = nn.AdaptiveAvgPool2d(1), nn.Flatten()
    return nn.Sequential(OrderedDict(**parts, pool=nn.Sequential(*pooled), head=nn.Linear(n_in, num_outputs)))


def _normed(n_in: int, n_out: int, stride: int) -> tuple[nn.Module, nn.Module]:
    return nn.Conv2d(n_in, n_out, 3, stride, padding=1, bias=False), nn.BatchNorm2d(n_out)
