"""Random crops and flips of a batch of images, drawn afresh each time it is seen.

    crop       out[i, j] = x[i + down, j + right],  down and right uniform on -pad..pad, zero outside x;
               pad is an eighth of the side, 4 of 32 pixels
    flip       out[i, j] = x[i, width - 1 - j] with probability 1/2
    crop-flip  both

Images are standardised by channel before they come here, so that the zeros around a crop are the mean colour.
Flips suit objects (CIFAR), not characters: a mirrored 2 is no 2.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.nn.functional import pad

from posterity.core.errors import UsageError, unknown_name

Augmentation = Callable[[Tensor, torch.Generator], Tensor]

_PADDED_FRACTION = 8  # of the side


def crop(x: Tensor, generator: torch.Generator) -> Tensor:
    """Each image of `x` (b, c, h, w) shifted by a random vector of its own."""
    return _moved(x, _shifts(x, generator), torch.zeros(len(x), dtype=torch.bool, device=x.device))


def flip(x: Tensor, generator: torch.Generator) -> Tensor:
    """Each image of `x` (b, c, h, w) mirrored left to right, or not."""
    return torch.where(_coins(x, generator)[:, None, None, None], x.flip(3), x)


def crop_flip(x: Tensor, generator: torch.Generator) -> Tensor:
    """A crop of each image of `x` (b, c, h, w), mirrored or not."""
    return _moved(x, _shifts(x, generator), _coins(x, generator))


AUGMENTATIONS: dict[str, Augmentation] = {"crop": crop, "flip": flip, "crop-flip": crop_flip}


def check_augmentation(name: str, input_shape: Sequence[int]) -> None:
    """Refuses an unknown name, inputs that are not images, and images too small to crop."""
    if name not in AUGMENTATIONS:
        raise unknown_name("augmentation", name, AUGMENTATIONS)
    if len(input_shape) != 3:
        raise UsageError(
            f"augmentation '{name}' is for images (channels, height, width), not for inputs of shape "
            f"{tuple(input_shape)}; leave it out."
        )
    if name != "flip" and min(input_shape[1:]) < _PADDED_FRACTION:
        raise UsageError(
            f"augmentation '{name}' shifts by an eighth of the side, which is less than a pixel for images of "
            f"shape {tuple(input_shape)}; use 'flip' or leave it out."
        )


def _pads(x: Tensor) -> tuple[int, int]:
    return x.shape[2] // _PADDED_FRACTION, x.shape[3] // _PADDED_FRACTION


def _shifts(x: Tensor, generator: torch.Generator) -> Tensor:
    """`down` and `right`, plus the pad, of each image, (2, b): where it begins in the padded one."""
    draws = [torch.randint(2 * size + 1, (len(x),), generator=generator, device=generator.device) for size in _pads(x)]
    return torch.stack(draws).to(x.device)


def _coins(x: Tensor, generator: torch.Generator) -> Tensor:
    return (torch.rand(len(x), generator=generator, device=generator.device) < 0.5).to(x.device)


def _moved(x: Tensor, shifts: Tensor, mirrored: Tensor) -> Tensor:
    """The crops that begin at `shifts` (2, b) of the padded images, mirrored where so said: one gather."""
    _, channels, height, width = x.shape
    rows, columns = (torch.arange(size, device=x.device) for size in (height, width))
    columns = torch.where(mirrored[:, None], width - 1 - columns, columns) + shifts[1][:, None]
    down, right = _pads(x)
    start = (rows + shifts[0][:, None]) * (width + 2 * right)
    index = (start[:, :, None] + columns[:, None, :]).flatten(1)[:, None].expand(-1, channels, -1)
    return pad(x, (right, right, down, down)).flatten(2).gather(2, index).view(x.shape)
