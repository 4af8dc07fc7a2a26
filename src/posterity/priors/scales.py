"""Prior standard deviations by rule, from a layer's numbers of inputs and outputs.

kaiming: sqrt(2 / ((1 + a^2) n_in))       a = 0 for plain ReLU (source 000's eq. 2.3.2, corrected)
xavier:  sqrt(2 / (n_in + n_out))
glorot:  sqrt(1 / n_in)
torch:   sqrt(1 / (3 n_in))               that of PyTorch's own initialisation
narrow:  sqrt(max(1 / (20 n_in), 4 / N))  0.4 of that, and wider where a network has few weights N; the default

The narrow prior was chosen by measurement together with the temperature T = tau p / N. At a temperature below 1 a prior
that is sqrt(T) as wide pulls the means as much as the whole one does at T = 1. The pull on a mean is tau / (N sd^2) of
it, which a small network would not withstand without the second part.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from posterity.core.errors import UsageError, unknown_name
from posterity.core.layout import Layout

SCALES: dict[str, Callable[[int, int], float]] = {
    "kaiming": lambda n_in, n_out: math.sqrt(2 / n_in),
    "xavier": lambda n_in, n_out: math.sqrt(2 / (n_in + n_out)),
    "glorot": lambda n_in, n_out: math.sqrt(1 / n_in),
    "torch": lambda n_in, n_out: math.sqrt(1 / (3 * n_in)),
    "narrow": lambda n_in, n_out: math.sqrt(1 / (20 * n_in)),  # of a network with many weights
}
DEFAULT_SCALE = NARROW = "narrow"
FEW = 4.0  # over the number of weights: the least variance of a narrow prior


def kaiming(negative_slope: float = 0.0) -> Callable[[int, int], float]:
    """Kaiming's rule for a leaky ReLU with slope a."""
    return lambda n_in, n_out: math.sqrt(2 / ((1 + negative_slope**2) * n_in))


def scale_rule(scale: float | str | Callable[[int, int], float]) -> Callable[[int, int], float]:
    """The function (n_in, n_out) -> sd that a number, a rule's name or a function stands for."""
    if callable(scale):
        return scale
    if isinstance(scale, str):
        if scale not in SCALES:
            raise unknown_name("prior scale", scale, SCALES)
        return SCALES[scale]
    if not (math.isfinite(scale) and scale > 0):
        raise UsageError(f"a prior's scale must be a positive number, not {scale}")
    return lambda n_in, n_out: float(scale)


def scales_by_entry(scale: float | str | Callable[[int, int], float], layout: Layout) -> list[float]:
    """The prior sd of each weight tensor."""
    rule = scale_rule(scale)
    least = math.sqrt(FEW / layout.num_weights) if scale == NARROW else 0.0
    return [max(rule(entry.fan_in, entry.fan_out), least) for entry in layout.entries]


def sd_of(scale: float | str | Callable[[int, int], float], layout: Layout, weights: Tensor) -> Tensor:
    """The prior sd of each weight (N,), with the dtype and device of `weights`."""
    return layout.fill(scales_by_entry(scale, layout)).to(weights)


def centre_of(mean: float | str | Mapping[str, Tensor], layout: Layout, weights: Tensor) -> Tensor | None:
    """A prior's mean (N,): a number, the present `weights` ("pretrained") or weights by name; None for zero."""
    if isinstance(mean, str):
        if mean != "pretrained":
            raise UsageError(f"a prior's mean is a number, 'pretrained' or weights by name, not '{mean}'")
        return weights.detach().clone()
    if isinstance(mean, Mapping):
        return layout.flatten(mean).to(weights)
    return torch.full_like(weights, mean) if mean else None
