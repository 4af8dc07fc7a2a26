"""How far a predictive distribution is from another one, and how good it is.

    total variation   tv = (1/2) int |p(y | x) - p'(y | x)| dy,  (1/2) sum_k |p_k - p'_k| for classes; mean over inputs
    agreement         share of inputs with the same most probable class                                     [1]
    coverage          share of targets in the predictive's central interval, from its own distribution function

Predictives are given by the outputs of S networks, (S, n, 1) means or (S, n, K) class probabilities. A regression's is
the mixture (1/S) sum_s N(y; mean_s, noise^2): the means are binned linearly on a grid of steps noise/20, convolved with
the noise's density and the difference is summed, which is exact to about 1e-3.

Limits: tv = 0 for the same predictive, 1 for disjoint ones; for N(a, s^2) and N(b, s^2) it is
erf(|a - b| / (s sqrt 8)).

[1] Izmailov, Vikram, Hoffman, Wilson, What are Bayesian neural network posteriors really like?, 2021.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn.functional import conv1d

from posterity.metrics import ece, gaussian_log_likelihood, nll

LEVEL = 0.9
REACH = 5.0  # noise sds beyond the outermost mean, and of the noise's own density
FINENESS = 20  # steps of the grid in a noise sd


def mixture_tv(ours: Tensor, theirs: Tensor, noise: float) -> float:
    """Mean over the n inputs of the total variation between mixtures with means (S, n) and (S', n)."""
    step = noise / FINENESS
    low = min(ours.min().item(), theirs.min().item()) - REACH * noise
    high = max(ours.max().item(), theirs.max().item()) + REACH * noise
    count = math.ceil((high - low) / step) + 2
    difference = _binned(ours, low, step, count) - _binned(theirs, low, step, count)
    half = round(REACH * FINENESS)
    kernel = torch.exp(-0.5 * (torch.arange(-half, half + 1, dtype=torch.float64) / FINENESS).square())
    density = conv1d(difference[:, None], (kernel / kernel.sum())[None, None], padding=half)
    return 0.5 * density.abs().sum(-1).mean().item()


def _binned(means: Tensor, low: float, step: float, count: int) -> Tensor:
    """The mass (n, count) of the means (S, n) on a grid, each shared by its two neighbours so that means are kept."""
    place = (means.T.double() - low) / step
    left = place.floor()
    share = (place - left) / len(means)
    mass = torch.zeros(means.shape[1], count, dtype=torch.float64)
    mass.scatter_add_(1, left.long(), 1 / len(means) - share)
    return mass.scatter_add_(1, left.long() + 1, share)


def mixture_coverage(means: Tensor, y: Tensor, noise: float, level: float = LEVEL) -> float:
    """Share of `y` (n,) in the central `level` interval of the mixture with means (S, n)."""
    below: Tensor = torch.special.ndtr((y - means) / noise).mean(0)
    inside = (below - 0.5).abs() <= level / 2
    return inside.double().mean().item()


def compare_regression(ours: Tensor, truth: Tensor, noise: float) -> dict[str, float]:
    """Distance of means (S, n, 1) from the truth's (S', n, 1)."""
    a, b = ours[..., 0], truth[..., 0]
    sd_a, sd_b = ((means.var(0, correction=0) + noise**2).sqrt() for means in (a, b))
    return {
        "tv": mixture_tv(a, b, noise),
        "mean rmse": (a.mean(0) - b.mean(0)).square().mean().sqrt().item(),
        "sd ratio": (sd_a / sd_b).log().mean().exp().item(),
    }


def compare_classes(ours: Tensor, truth: Tensor) -> dict[str, float]:
    """Distance of class probabilities (S, n, K) from the truth's (S', n, K)."""
    a, b = ours.mean(0), truth.mean(0)
    return {
        "tv": 0.5 * (a - b).abs().sum(-1).mean().item(),
        "agreement": (a.argmax(-1) == b.argmax(-1)).double().mean().item(),
    }


def score_regression(ours: Tensor, y: Tensor, noise: float) -> dict[str, float]:
    """Quality of means (S, n, 1) at targets (n, 1)."""
    variances = torch.full_like(ours, noise**2)
    return {
        "nll": -gaussian_log_likelihood(ours, variances, y),
        "coverage": mixture_coverage(ours[..., 0], y[:, 0], noise),
    }


def score_classes(ours: Tensor, y: Tensor) -> dict[str, float]:
    """Quality of class probabilities (S, n, K) at labels (n,)."""
    probs = ours.mean(0)
    return {"nll": nll(probs, y), "ece": ece(probs, y)}
