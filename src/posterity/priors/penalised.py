"""The prior that a penalty stands for, over a whole network: alpha ~ exp(-factor sum_l lambda_l r(w_l)).

    log alpha(w) = -sum_l sum_g [ c_l |w_g|^k + log Z(c_l, d_l) ],    c_l = factor * lambda_l
    l2  (k = 2, d = 1):  Z = sqrt(pi / c)                                             sd = 1 / sqrt(2 c)
    norms (k = 1):       Z = 2 pi^(d/2) Gamma(d) / (Gamma(d/2) c^d)                   sd = sqrt(d + 1) / c

lambda_l comes from the layer's number of inputs (priors.penalties), so that with factor 1 (theory) each weight has the
variance of its initialisation; or it is free, given by patterns of names (source 004's usual setting). Weights of one
group are dependent, groups independent.

Trained with it, a point network pays the penalty itself, factor sum_l lambda_l r(w_l), without the constant log Z: with
the objective's 1 / num_data this is source 004's complete penalty, lambda_th = 1/p. A mean-field network pays
    r(q) = factor sum_l lambda_l E_q r(w_l) - entropy(q) + sum log Z = KL(q || alpha)
which is the only penalty of that family with this prior (the theorem of 004): the penalty of the means alone is no KL.
Its expectations are closed forms (l2, l1) or one-dimensional integrals (groups; priors.expectations), without sampling.

A sample keeps the direction of a group's noise; its radius is the quantile of Gamma(d, 1/c) at the noise's own chi_d.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from posterity.core.errors import UsageError
from posterity.core.layout import Entry, Layout
from posterity.priors.expectations import expected_abs, expected_norm
from posterity.priors.patterns import first_matches
from posterity.priors.penalties import GLOROT, penalty_named, variance_named
from posterity.priors.prior import Prior


@dataclass(frozen=True)
class FromPenalty:
    """What a user asks for: the prior of a penalty by name, `factor` times what theory gives each layer.

    `variance` names the initialisation that theory takes it from (priors.penalties). A free lambda_l replaces theory's
    for the weight tensors whose names match a pattern of `factors`, the first that does.
    """

    penalty: str
    factor: float = 1.0
    factors: Mapping[str, float] = field(default_factory=dict)
    variance: str = GLOROT

    def __post_init__(self) -> None:
        penalty_named(self.penalty)
        variance_named(self.variance)
        _check_factor("a penalty's factor", self.factor, "; 1 is theory")
        for pattern, value in self.factors.items():
            _check_factor(f"the factor of '{pattern}'", value)

    def bind(self, layout: Layout, weights: Tensor) -> FlatPenalty:
        """The prior over the flat vector; `weights` (N,) only give the dtype."""
        matches = first_matches(self.factors, layout.names)
        factors = [
            self.factor * (self._by_theory(entry) if pattern is None else self.factors[pattern])
            for entry, pattern in zip(layout.entries, matches, strict=True)
        ]
        return FlatPenalty(self.penalty, layout.entries, torch.tensor(factors, dtype=torch.float64).to(weights))

    def _by_theory(self, entry: Entry) -> float:
        penalty = penalty_named(self.penalty)
        return penalty.factor(entry.fan_in / variance_named(self.variance), penalty.group_size(entry))


def _check_factor(name: str, value: float, hint: str = "") -> None:
    if not (math.isfinite(value) and value > 0):
        raise UsageError(f"{name} must be a positive number, not {value}{hint}")


class FlatPenalty(Prior):
    """exp(-penalty) over the flat vector, with a factor (L,) for each weight tensor."""

    kind = "penalty"
    by_weight = ()
    factors: Tensor

    def __init__(self, penalty: str, entries: Sequence[Entry], factors: Tensor) -> None:
        super().__init__()
        self.penalty = penalty_named(penalty)
        self.entries = tuple(entries)
        self.register_buffer("factors", factors)

    @property
    def factorised(self) -> bool:
        """Not for groups."""
        return self.penalty.axis is None

    @property
    def mean(self) -> Tensor:
        """Zero for all weights (1,)."""
        return self.factors.new_zeros(1)

    @property
    def sd(self) -> Tensor:
        """Standard deviation of each weight (N,)."""
        if self.penalty.squared:
            each = [(0.5 / c).sqrt() for c in self.factors]
        else:
            each = [math.sqrt(self.penalty.group_size(e) + 1) / c for e, c in self._tensors()]
        return torch.cat([sd.expand(e.size) for e, sd in zip(self.entries, each, strict=True)])

    def penalty_by_weight(self, weights: Tensor) -> Tensor:
        """Each weight's share (..., N) of factor sum_l lambda_l r(w_l)."""
        if self.penalty.squared:
            return self._spread(lambda w: w.square().squeeze(-1), weights)
        return self._spread(lambda w: torch.linalg.vector_norm(w, dim=-1), weights)

    def energy_by_weight(self, weights: Tensor) -> Tensor:
        """The penalty, without log Z."""
        return self.penalty_by_weight(weights)

    def log_density_by_weight(self, weights: Tensor) -> Tensor:
        """Each weight's share (..., N) of log prior(w); a group's weights share equally."""
        return -self.penalty_by_weight(weights) - self._log_normaliser()

    def expected_log_density(self, mean: Tensor, sd: Tensor) -> Tensor:
        """As `log_density_by_weight`, in expectation."""
        if self.penalty.squared:
            energy = self._spread(lambda m, s: (m.square() + s.square()).squeeze(-1), mean, sd)
        elif self.factorised:
            energy = self._spread(lambda m, s: expected_abs(m, s).squeeze(-1), mean, sd)
        else:
            energy = self._spread(_expected_norm, mean, sd)
        return -energy - self._log_normaliser()

    def sample(self, noise: Tensor) -> Tensor:
        """Weights (S, N) for standard normal `noise` (S, N)."""
        parts = []
        for (entry, c), part in zip(self._tensors(), self._split(noise), strict=True):
            if self.penalty.squared:
                parts.append(part * (0.5 / c).sqrt())
                continue
            groups = self.penalty.groups(entry, part).double()
            norm = torch.linalg.vector_norm(groups, dim=-1)
            stretch = _gamma_radius(norm, groups.shape[-1]) / norm.clamp_min(torch.finfo(torch.float64).tiny)
            # `spread` divides by d: here every weight takes the whole of its group's stretch.
            whole = self.penalty.spread(entry, stretch * groups.shape[-1])
            parts.append((part.double() * whole / c).to(noise.dtype))
        return torch.cat(parts, dim=-1)

    @classmethod
    def empty(
        cls, num_weights: int, *, penalty: str = "l2", tensors: Iterable[Any] = (), **options: Any
    ) -> FlatPenalty:
        """Of unit factors, to be loaded."""
        entries = [Entry(name, tuple(shape), 1, 1, *kind) for name, shape, *kind in tensors]
        return cls(penalty, entries, torch.ones(len(entries)))

    def options(self) -> dict[str, Any]:
        """The penalty, and the tensors whose rows and columns it needs."""
        tensors = [[e.name, list(e.shape), e.groups, e.transposed] for e in self.entries]
        return {"penalty": self.penalty.name, "tensors": tensors}

    def _tensors(self) -> list[tuple[Entry, Tensor]]:
        return list(zip(self.entries, self.factors, strict=True))

    def _split(self, vector: Tensor) -> tuple[Tensor, ...]:
        parts: tuple[Tensor, ...] = vector.split([e.size for e in self.entries], dim=-1)
        return parts

    def _spread(self, value: Any, *vectors: Tensor) -> Tensor:
        """c times `value` (..., G) of the groups (..., G, d) of `vectors`, shared among their weights."""
        parts = []
        for (entry, c), *pieces in zip(self._tensors(), *map(self._split, vectors), strict=True):
            values = value(*(self.penalty.groups(entry, piece) for piece in pieces))
            parts.append(self.penalty.spread(entry, c * values))
        return torch.cat(parts, dim=-1)

    def _log_normaliser(self) -> Tensor:
        """Each weight's share (N,) of sum log Z."""
        parts = []
        for entry, c in self._tensors():
            d = self.penalty.group_size(entry)
            if self.penalty.squared:
                log_z = 0.5 * (math.log(math.pi) - c.log())
            else:
                constant = math.log(2) + d / 2 * math.log(math.pi) + math.lgamma(d) - math.lgamma(d / 2)
                log_z = constant / d - c.log()
            parts.append(log_z.expand(entry.size))
        return torch.cat(parts)


def _expected_norm(mean: Tensor, sd: Tensor) -> Tensor:
    if mean.shape[-1] == 1:
        return expected_abs(mean, sd).squeeze(-1)
    return expected_norm(mean, sd)


def _gamma_radius(norm: Tensor, d: int) -> Tensor:
    """The radius whose probability under Gamma(d, 1) is that of `norm` under chi_d, by bisection."""
    below = torch.special.gammainc(torch.full_like(norm, d / 2), 0.5 * norm.square())
    low, high = torch.zeros_like(norm), torch.full_like(norm, d + 40 + 12 * math.sqrt(d))
    shape = torch.full_like(norm, d)
    for _ in range(60):
        middle = 0.5 * (low + high)
        short = torch.special.gammainc(shape, middle) < below
        low, high = torch.where(short, middle, low), torch.where(short, high, middle)
    return 0.5 * (low + high)
