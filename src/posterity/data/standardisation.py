"""Mean 0 and sd 1 by feature or channel, with the statistics of the training data.

    z = (x - mean) / sd,   sd^2 = mean of (x - mean)^2 over the rows (and pixels), each as often as it weighs
    sd = 1 where a feature is constant, so that it becomes 0

Precision: the sums are float64 and `mean` and `sd` are rounded to the type of the data they are of. z is
computed in the wider of the types of x and of these, and is float32 unless more is asked for:

    float32 data  float32 statistics and arithmetic
    float64 data  float64 statistics and arithmetic, by chunks, and only z is rounded to float32: targets of
                  1e9 +- 4 and Unix seconds differ in digits that float32 does not have

float64 data are constant where sd is rounding noise, sd <= 8 eps |mean|, or sd^2 underflows. Tokens (int64) are
names rather than numbers and are never standardised.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from posterity.core.errors import CorruptFileError, DataError
from posterity.data.dataset import Dataset
from posterity.data.validation import chunks

_NOISE = 8.0  # in units of eps |mean|: what a few additions that should give the same leave


@dataclass(frozen=True)
class Standardisation:
    """Mean and sd of inputs by feature (n, d) or channel (n, c, ...), and of regression targets.

    `x_mean` and `x_sd` are (d,) or (c, 1, ...); `y_mean` and `y_sd` are (k,) for regression and
    [0.], [1.] otherwise. They come from training data only.
    """

    x_mean: Tensor
    x_sd: Tensor
    y_mean: Tensor
    y_sd: Tensor

    @classmethod
    def of(cls, dataset: Dataset) -> Standardisation:
        """Statistics of `dataset`; a constant feature gets sd 1, so that it becomes 0."""
        unit = cls.identity(dataset)
        if dataset.x.is_floating_point():
            x_mean, x_sd = _moments(dataset.x, dataset.weight, f"{dataset.name}: inputs")
            if dataset.columns is not None:  # ones, zeros and codes stay what they are
                scaled = torch.tensor(dataset.columns.scaled)
                x_mean, x_sd = torch.where(scaled, x_mean, 0.0), torch.where(scaled, x_sd, 1.0)
            unit = replace(unit, x_mean=x_mean, x_sd=x_sd)
        if dataset.task == "regression":
            y_mean, y_sd = _moments(dataset.y, dataset.weight, f"{dataset.name}: targets")
            unit = replace(unit, y_mean=y_mean, y_sd=y_sd)
        return unit

    @classmethod
    def identity(cls, dataset: Dataset) -> Standardisation:
        """Mean 0 and sd 1, in the shapes that fit `dataset`."""
        first, *rest = dataset.input_shape
        shape = (first,) + (1,) * len(rest)
        width = dataset.y.shape[1] if dataset.task == "regression" else 1
        like = dataset.y if dataset.task == "regression" else dataset.x
        return cls(dataset.x.new_zeros(shape), dataset.x.new_ones(shape), like.new_zeros(width), like.new_ones(width))

    def inputs(self, x: Tensor, *, most: torch.dtype = torch.float32) -> Tensor:
        """Standardised inputs, (n, ...), with the precision `most` at most; tokens come back as they are."""
        mean = self.x_mean
        if x.ndim != mean.ndim + 1 or x.shape[1] != mean.shape[0]:
            raise DataError(
                f"inputs of shape {tuple(x.shape)} do not fit the training data: expected {mean.ndim + 1} "
                f"dimensions, rows first, and {mean.shape[0]} features or channels second."
            )
        return _standardised(x, mean, self.x_sd, most) if mean.is_floating_point() else x

    def targets(self, y: Tensor, *, most: torch.dtype = torch.float32) -> Tensor:
        """Standardised regression targets (n, k), as precise as `most`; labels and 0/1 come back as they are."""
        if y.ndim < 2 or not y.is_floating_point():
            return y.float() if y.dtype == torch.float64 else y
        if y.shape[1] != len(self.y_mean):
            raise DataError(f"targets have {y.shape[1]} columns but those of the training data {len(self.y_mean)}.")
        return _standardised(y, self.y_mean, self.y_sd, most)

    def apply(self, dataset: Dataset, *, most: torch.dtype = torch.float32) -> Dataset:
        """`dataset` with standardised inputs and, for regression, targets, with the precision `most` at most."""
        return replace(dataset, x=self.inputs(dataset.x, most=most), y=self.targets(dataset.y, most=most))

    def state(self) -> dict[str, Tensor]:
        """The four tensors by name."""
        return {"x_mean": self.x_mean, "x_sd": self.x_sd, "y_mean": self.y_mean, "y_sd": self.y_sd}

    @classmethod
    def from_state(cls, state: Mapping[str, Tensor]) -> Standardisation:
        """Inverse of `state`."""
        missing = [key for key in ("x_mean", "x_sd", "y_mean", "y_sd") if key not in state]
        if missing:
            raise CorruptFileError(f"standardisation lacks {', '.join(missing)}; it has {sorted(state)}.")
        return cls(state["x_mean"], state["x_sd"], state["y_mean"], state["y_sd"])


def _standardised(values: Tensor, mean: Tensor, sd: Tensor, most: torch.dtype) -> Tensor:
    """(values - mean) / sd as `most`, or narrower if all three are."""
    if torch.promote_types(values.dtype, mean.dtype) != torch.float64:
        return (values - mean).div_(sd)
    result = torch.empty(values.shape, dtype=most, device=values.device)
    for place, chunk in zip(chunks(result), chunks(values), strict=True):
        place.copy_((chunk - mean).div_(sd))
    return result


def _moments(values: Tensor, weight: Tensor | None, what: str) -> tuple[Tensor, Tensor]:
    """Mean and sd over all dimensions but the second, in float64 by two passes over chunks; `weight` is of the rows."""
    over = [0, *range(2, values.ndim)]
    rows = len(values) if weight is None else weight.double().sum().item()
    count = rows * (values[0].numel() // values.shape[1])

    def total(change: Callable[[Tensor], Tensor]) -> Tensor:
        found, at = torch.zeros((), dtype=torch.float64, device=values.device), 0
        for chunk in chunks(values):
            changed = change(chunk.double())
            if weight is not None:
                changed.mul_(weight[at : at + len(chunk)].double().view(-1, *[1] * (values.ndim - 1)))
            found, at = found + changed.sum(over, keepdim=True), at + len(chunk)
        return found

    # Differences from the first value: a constant feature then has a variance of exactly 0.
    first = values[(slice(0, 1), slice(None), *(slice(0, 1) for _ in over[1:]))]
    mean = first.to(torch.float64, copy=True)  # it is added to, and of float64 data it would be their first row
    mean += total(lambda part: part - mean) / count
    variance = total(lambda part: (part - mean).square_())
    mean, sd = mean[0], (variance[0] / count).sqrt()
    if not sd.isfinite().all():
        raise DataError(f"{what} are so large that their variance overflows; rescale them.")
    return mean.to(values.dtype), _without_constants(mean, sd, values.dtype)


def _without_constants(mean: Tensor, sd: Tensor, dtype: torch.dtype) -> Tensor:
    """`sd` as `dtype`, with 1 for the features that are constant up to rounding."""
    least = torch.zeros_like(sd)
    if dtype == torch.float64:
        limits = torch.finfo(dtype)
        least = (_NOISE * limits.eps * mean.abs()).clamp_min(limits.tiny**0.5)
    rounded = sd.to(dtype)
    return torch.where((sd > least) & (rounded > 0), rounded, torch.ones_like(rounded))
