"""The benchmark's workloads: plain PyTorch networks, their input shapes and data set sizes.

Every peer converts the same network; none of the forwards changes a tensor in place, which vmap forbids.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F


@dataclass(frozen=True)
class Workload:
    """A network and the batches it is trained on."""

    name: str
    make_model: Callable[[], nn.Module]
    input_shape: tuple[int, ...]
    batch: int
    num_classes: int
    num_data: int

    def make_batch(self, *, seed: int = 0) -> tuple[Tensor, Tensor]:
        """Standard normal inputs (batch, *input_shape) and uniform labels (batch,)."""
        generator = torch.Generator().manual_seed(seed)
        inputs = torch.randn(self.batch, *self.input_shape, generator=generator)
        labels = torch.randint(self.num_classes, (self.batch,), generator=generator)
        return inputs, labels


def make_lenet5() -> nn.Module:
    """LeNet-5 with ReLU and max pooling for 28 x 28 images."""
    return nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(400, 120),
        nn.ReLU(),
        nn.Linear(120, 84),
        nn.ReLU(),
        nn.Linear(84, 10),
    )


def make_mlp() -> nn.Module:
    """784-400-400-10 with ReLU."""
    return nn.Sequential(
        nn.Flatten(),
        nn.Linear(784, 400),
        nn.ReLU(),
        nn.Linear(400, 400),
        nn.ReLU(),
        nn.Linear(400, 10),
    )


def conv3x3(inputs: int, outputs: int, stride: int = 1) -> nn.Conv2d:
    """A 3 x 3 convolution that keeps the size (divided by `stride`); batch norm brings its bias."""
    return nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=False)


class BasicBlock(nn.Module):
    """Two 3 x 3 convolutions around a parameter-free shortcut (option A: subsample, pad with zeros)."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = conv3x3(inputs, outputs, stride)
        self.norm1 = nn.BatchNorm2d(outputs)
        self.conv2 = conv3x3(outputs, outputs)
        self.norm2 = nn.BatchNorm2d(outputs)
        self.stride = stride
        self.extra_channels = outputs - inputs

    def forward(self, x: Tensor) -> Tensor:
        """(B, inputs, H, W) to (B, outputs, H / stride, W / stride)."""
        out = self.norm2(self.conv2(F.relu(self.norm1(self.conv1(x)))))
        if self.extra_channels:
            x = F.pad(x[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, 0, self.extra_channels))
        return F.relu(out + x)


def make_resnet20() -> nn.Module:
    """ResNet-20 for 3 x 32 x 32 images: three stages of three basic blocks with 16, 32 and 64 channels."""
    blocks = []
    inputs = 16
    for outputs in (16, 32, 64):
        for _ in range(3):
            blocks.append(BasicBlock(inputs, outputs, stride=1 if inputs == outputs else 2))
            inputs = outputs
    stem = (conv3x3(3, 16), nn.BatchNorm2d(16), nn.ReLU())
    return nn.Sequential(*stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, 10))


WORKLOADS: dict[str, Workload] = {
    workload.name: workload
    for workload in (
        Workload("lenet5", make_lenet5, (1, 28, 28), batch=100, num_classes=10, num_data=60_000),
        Workload("mlp", make_mlp, (1, 28, 28), batch=100, num_classes=10, num_data=60_000),
        Workload("resnet", make_resnet20, (3, 32, 32), batch=128, num_classes=10, num_data=50_000),
    )
}
