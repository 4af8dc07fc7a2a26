"""What the networks for images ask of them: sizes they take, widths, and where they halve their features."""

from __future__ import annotations

from collections.abc import Sequence

from posterity.core.errors import UsageError

SIDES = (32, 28, 8)
LEAST_TO_HALVE = 4


def square_side(model: str, input_shape: Sequence[int]) -> int:
    """Height and width of square images (channels, side, side) of one of the `SIDES`; others are refused."""
    if len(input_shape) != 3 or input_shape[1] != input_shape[2] or input_shape[1] not in SIDES:
        raise UsageError(
            f"{model} takes square images of 32, 28 or 8 pixels, not inputs of shape {tuple(input_shape)}; "
            "try model 'mlp' or 'cnn'"
        )
    return input_shape[1]


def shorter_side(model: str, input_shape: Sequence[int], *, least: int) -> int:
    """The smaller of height and width of images (channels, height, width); less than `least` is refused."""
    if len(input_shape) != 3 or min(input_shape[1:]) < least:
        smaller = "" if model == "cnn" else ", or 'cnn' for images of at least 4 pixels"
        raise UsageError(
            f"{model} takes images (channels, height, width) of at least {least} pixels, "
            f"not inputs of shape {tuple(input_shape)}; try model 'mlp'{smaller}"
        )
    return min(input_shape[1:])


def check_width(model: str, width: int) -> None:
    """Refuse a width below 1."""
    if width < 1:
        raise UsageError(f"the width of {model} must be at least 1, not {width}")


def strides(side: int, steps: int) -> list[int]:
    """2 for each of `steps` that halves features of `side` pixels, 1 where there are fewer than 4 left to halve.

    Convolutions then see at least 2 x 2 pixels, of which batch norm has a variance even in a batch of one image.
    """
    found = []
    for _ in range(steps):
        found.append(2 if side >= LEAST_TO_HALVE else 1)
        side //= found[-1]
    return found
