"""What every metric demands of its inputs; each function returns the input detached and ready for use.

A probability may leave [0, 1] by rounding alone (an average of softmax outputs does): such values are
clamped, anything further out is refused. Rows must sum to 1, which is how logits are caught.
"""

from __future__ import annotations

import torch
from torch import Tensor

from posterity.core.errors import UsageError

ROW_SUM_SLACK = 1e-3
RANGE_SLACK = 1e-6


def classification(probs: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """`probs` (n, K) in [0, 1] and labels `y` (n,) as int64 in 0..K-1."""
    probs = probabilities(probs)
    return probs, labels(y, n=probs.shape[0], classes=probs.shape[1])


def probabilities(probs: Tensor) -> Tensor:
    """`probs` (n, K), K >= 2, rows summing to 1, clamped to [0, 1]."""
    _nonempty("probs", probs, "(n, K)", dims=2)
    if not probs.is_floating_point():
        raise UsageError(f"probs must be floating point, not {probs.dtype}; convert with .float().")
    if probs.shape[1] < 2:
        raise UsageError(
            f"probs has shape {_shape(probs)}: it needs a column per class; "
            "for a binary task pass torch.stack([1 - p, p], dim=1)."
        )
    probs = probs.detach()
    eps = torch.finfo(probs.dtype).eps
    slack = max(RANGE_SLACK, eps)
    _all(
        (probs >= -slack) & (probs <= 1 + slack),
        "probs",
        probs,
        "a probability in [0, 1]; apply softmax to logits first",
    )
    sums = probs.double().sum(dim=1)
    # `eps` lets half-precision rows pass, whose entries are each rounded.
    _all((sums - 1).abs() <= max(ROW_SUM_SLACK, 4 * eps), "the row sum of probs, probs.sum(1)", sums, "1")
    return probs.clamp(0.0, 1.0)


def labels(y: Tensor, *, n: int, classes: int) -> Tensor:
    """Labels `y` (n,) as int64 in 0..classes-1."""
    if y.shape != (n,):
        raise UsageError(f"y has shape {_shape(y)}, expected ({n},): one label for each row of predictions.")
    if y.is_floating_point() or y.is_complex():
        raise UsageError(f"y must hold integer class labels, not {y.dtype}; convert with .long().")
    y = y.detach().long()
    _all((y >= 0) & (y < classes), "y", y, f"a label in 0..{classes - 1}")
    return y


def log_probabilities(log_probs: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """`log_probs` (S, n, K), all <= 0, and labels `y` (n,)."""
    _nonempty("log_probs", log_probs, "(S, n, K)", dims=3)
    if not log_probs.is_floating_point():
        raise UsageError(f"log_probs must be floating point, not {log_probs.dtype}; convert with .float().")
    log_probs = log_probs.detach()
    slack = max(RANGE_SLACK, torch.finfo(log_probs.dtype).eps)
    _all(
        log_probs <= slack,
        "log_probs",
        log_probs,
        "a log probability <= 0; apply log_softmax to logits first",
    )
    return log_probs, labels(y, n=log_probs.shape[1], classes=log_probs.shape[2])


def targets(predicted: dict[str, Tensor], y: Tensor) -> tuple[Tensor, ...]:
    """The `predicted` tensors and `y`, all of y's shape, (n,) or (n, k), finite, as float64."""
    if y.ndim not in (1, 2) or y.numel() == 0:
        raise UsageError(f"y has shape {_shape(y)}, expected (n,) or (n, k), not empty.")
    return tuple(_float64(name, value, tuple(y.shape)) for name, value in {**predicted, "y": y}.items())


def sampled_targets(predicted: dict[str, Tensor], y: Tensor) -> tuple[Tensor, ...]:
    """The `predicted` tensors (S, n, k) and `y` (n, k), finite, as float64."""
    first, value = next(iter(predicted.items()))
    _nonempty(first, value, "(S, n, k)", dims=3)
    shape = tuple(value.shape)
    return *(_float64(name, v, shape) for name, v in predicted.items()), _float64("y", y, shape[1:])


def variance(values: Tensor, *, name: str, zero: bool) -> Tensor:
    """`values`, all > 0, or >= 0 where a `zero` variance has a meaning."""
    allowed = values >= 0 if zero else values > 0
    _all(allowed, name, values, f"a variance {'>=' if zero else '>'} 0")
    return values


def vector(name: str, values: Tensor) -> Tensor:
    """`values` (n,), free of NaN, as float64; infinities are ordered like any other score."""
    _nonempty(name, values, "(n,)", dims=1)
    values = values.detach().double()
    _all(~values.isnan(), name, values, "a number")
    return values


def positive_int(name: str, value: int) -> int:
    """`value`, a whole number >= 1."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise UsageError(f"{name} is {value!r}, expected a whole number >= 1.")
    return value


def _float64(name: str, values: Tensor, shape: tuple[int, ...]) -> Tensor:
    # Shapes must be equal: (n, 1) against (n,) would broadcast to (n, n) without a word.
    if tuple(values.shape) != shape:
        raise UsageError(f"{name} has shape {_shape(values)}, expected {shape}.")
    values = values.detach().double()
    _all(values.isfinite(), name, values, "finite")
    return values


def _nonempty(name: str, values: Tensor, expected: str, *, dims: int) -> None:
    if values.ndim != dims or values.numel() == 0:
        raise UsageError(f"{name} has shape {_shape(values)}, expected {expected}, not empty.")


def _all(allowed: Tensor, name: str, values: Tensor, expected: str) -> None:
    """Raise for the first value that is not `allowed`, by name, place and value."""
    if bool(allowed.all()):
        return
    place = tuple(int(i) for i in (~allowed).nonzero()[0])
    where = f"{name}[{', '.join(map(str, place))}]"
    raise UsageError(f"{where} is {values[place].item()}, expected {expected}.")


def _shape(values: Tensor) -> tuple[int, ...]:
    return tuple(values.shape)
