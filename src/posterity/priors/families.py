"""Translation-invariant families q_{mu,nu}(w) = q_{0,nu}(w - mu) in one dimension; nu is the standard deviation.

             entropy(nu)                   characteristic function at t, for nu = 1
    gaussian log nu + log(2 pi e) / 2      exp(-t^2 / 2)
    laplace  log nu + 1 + log(2) / 2       1 / (1 + t^2 / 2)
    delta    none: only q = delta_mu       1

Expectations: by the trapezoidal rule for the Gaussian (exponentially accurate for smooth integrands), by panels of
Gauss-Legendre on each side of the kink for Laplace.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from posterity.core.errors import unknown_name

Array = NDArray[np.float64]
Function = Callable[[Array], Array]


@dataclass(frozen=True)
class Family:
    """A family by its member of mean 0 and sd 1: entropy, characteristic function, quadrature nodes and weights."""

    name: str
    entropy: float
    characteristic: Function
    nodes: Array
    weights: Array

    def entropy_at(self, nu: float) -> float:
        """Entropy of q_{mu,nu}, in nats."""
        return self.entropy + math.log(nu)

    def expect(self, function: Function, mu: Array, nu: float) -> Array:
        """E f(w) for w ~ q_{mu,nu}, at each mu (K,)."""
        result = np.empty_like(mu)
        for start in range(0, len(mu), 512):
            part = slice(start, start + 512)
            result[part] = function(mu[part, None] + nu * self.nodes) @ self.weights
        return result


def _gaussian() -> Family:
    nodes = np.linspace(-9, 9, 1201)
    weights = np.exp(-(nodes**2) / 2)
    return Family(
        "gaussian", 0.5 + 0.5 * math.log(2 * math.pi), lambda t: np.exp(-(t**2) / 2), nodes, weights / weights.sum()
    )


def _laplace() -> Family:
    # Panels of Gauss-Legendre on one side of the kink: x in units of the family's b = 1 / sqrt(2).
    local, shares = np.polynomial.legendre.leggauss(8)
    half = (np.arange(0, 36, 0.5)[:, None] + 0.25 * (1 + local)).reshape(-1)
    weights = np.tile(shares, 72) * np.exp(-half)
    nodes = np.concatenate([-half[::-1], half]) * math.sqrt(0.5)
    both = np.concatenate([weights[::-1], weights])
    return Family("laplace", 1 + 0.5 * math.log(2), lambda t: 1 / (1 + t**2 / 2), nodes, both / both.sum())


FAMILIES = {
    "gaussian": _gaussian(),
    "laplace": _laplace(),
    "delta": Family("delta", 0.0, lambda t: np.ones_like(t), np.zeros(1), np.ones(1)),
}


def family_named(name: str) -> Family:
    """The family of that name."""
    if name not in FAMILIES:
        raise unknown_name("family", name, FAMILIES)
    return FAMILIES[name]
