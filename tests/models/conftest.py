"""How large a network is, and images to try it on."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
import torch
from torch import Tensor, nn


@pytest.fixture
def count() -> Callable[[nn.Module], int]:
    """The number of a module's weights."""
    return lambda model: sum(parameter.numel() for parameter in model.parameters())


@pytest.fixture
def random_images() -> Callable[[Sequence[int]], tuple[Tensor, Tensor]]:
    """16 images of noise of four classes."""

    def make(shape: Sequence[int]) -> tuple[Tensor, Tensor]:
        g = torch.Generator().manual_seed(0)
        return torch.randn(16, *shape, generator=g), torch.arange(16) % 4

    return make
