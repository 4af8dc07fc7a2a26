"""Inputs of a network: one tensor, or several as a tuple or a dict of tensors, row by row.

    x                    model(x)
    (a, b)               model(a, b)            a tuple becomes positional arguments
    {"a": a, "b": b}     model(a=a, b=b)        a dict becomes keyword arguments

All have one row for each datum. A named tuple (a packed sequence, say) is one argument.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

Inputs = Any  # Tensor | tuple[Tensor, ...] | dict[str, Tensor]; own modules take other things, too


def several(x: Inputs) -> bool:
    """Whether these are several inputs."""
    return type(x) is tuple or isinstance(x, Mapping)


def parts(x: Inputs) -> list[Any]:
    """The tensors, in order."""
    if isinstance(x, Mapping):
        return list(x.values())
    return list(x) if type(x) is tuple else [x]


def call(function: Callable[..., Any], x: Inputs) -> Any:
    """`function` of the inputs as its arguments."""
    if isinstance(x, Mapping):
        return function(**x)
    return function(*x) if type(x) is tuple else function(x)


def mapped(change: Callable[[Any], Any], x: Inputs) -> Inputs:
    """The same with each tensor changed."""
    if isinstance(x, Mapping):
        return {name: change(part) for name, part in x.items()}
    return tuple(change(part) for part in x) if type(x) is tuple else change(x)


def count(x: Inputs) -> int:
    """The number of rows: that of the first tensor; 1 where there is none."""
    return next((len(part) for part in parts(x) if isinstance(part, Tensor) and part.dim()), 1)


def take(x: Inputs, rows: Tensor | slice) -> Inputs:
    """These rows: positions, a mask, or a slice."""
    if isinstance(rows, slice):
        return mapped(lambda part: part[rows], x)
    if rows.dtype == torch.bool:
        rows = rows.nonzero().squeeze(1)
    return mapped(lambda part: part.index_select(0, rows.to(part.device)), x)


def moved(x: Inputs, like: Tensor) -> Inputs:
    """On the device of `like`, real numbers with its dtype; tokens and masks keep theirs."""

    def move(part: Tensor) -> Tensor:
        return part.to(like.device, like.dtype) if part.is_floating_point() else part.to(like.device)

    return mapped(move, x)


def shapes(x: Inputs) -> Any:
    """The shape of one row: of each input where there are several."""
    return mapped(lambda part: tuple(part.shape[1:]), x)
