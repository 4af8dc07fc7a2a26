"""What a penalty says in Bayes' terms: its factor, its prior, and whether it is a KL divergence of a family.

    delta     point networks: lambda r(w) is the KL up to a constant, and exp(-lambda r) the prior
    gaussian  mean-field networks: lambda r(mean) alone is no KL; lambda E_q r(w) - entropy(q) is, with that same prior

One weight of a group of d has the marginal density  p(w) ~ int_0^inf s^(d-2) exp(-lambda sqrt(w^2 + s^2)) ds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from posterity.core.errors import UsageError
from posterity.priors import PENALTIES, Gaussian, Laplace, penalty_factor
from posterity.priors.equivalence import Equivalence, penalty_of, prior_of
from posterity.priors.families import Array

REACH, POINTS = 4.5, 601  # of the drawn density, in standard deviations


@dataclass(frozen=True)
class PenaltyStudy:
    """A penalty of a layer: `alone` is the verdict on it, `completed` the one on its expectation minus the entropy."""

    name: str
    inputs: int
    group_size: int
    family: str
    factor: float
    prior: str
    sd: float
    weights: Array
    density: Array
    penalty: Array
    alone: Equivalence
    completed: Equivalence | None

    def as_dict(self) -> dict[str, object]:
        """Plain values."""
        verdicts = {"alone": self.alone, "completed": self.completed}
        return {
            **{k: getattr(self, k) for k in ("name", "inputs", "group_size", "family", "factor", "prior", "sd")},
            **{
                key: {
                    **{k: getattr(e, k) for k in ("is_kl", "reason", "dependence", "resolution")},
                    "mass": e.mass if math.isfinite(e.mass) else None,
                }
                for key, e in verdicts.items()
                if e is not None
            },
        }


def study_penalty(name: str, inputs: int, *, group_size: int = 1, family: str = "delta") -> PenaltyStudy:
    """Factor, prior and verdict of penalty `name` in a layer of `inputs`."""
    factor = penalty_factor(name, inputs, group_size)
    squared, sd = PENALTIES[name].squared, 1 / math.sqrt(inputs)
    if family != "delta" and group_size > 1:
        raise UsageError(f"the equivalence is computed for one weight: use --group-size 1, not {group_size}, or delta")

    def penalty(w: Array) -> Array:
        return factor * (w**2 if squared else np.abs(w))

    w = np.linspace(-REACH * sd, REACH * sd, POINTS)
    log_density = _log_marginal(w, factor, group_size) if group_size > 1 else -penalty(w)
    density = np.exp(log_density - log_density.max())
    if group_size == 1:
        mass = math.sqrt(math.pi / factor) if squared else 2 / factor
    else:
        # Normalised where it is wide enough to hold all but 1e-9 of the mass.
        wide = np.linspace(-40 * sd, 40 * sd, 20_001)
        mass = float(np.exp(_log_marginal(wide, factor, group_size) - log_density.max()).sum() * (wide[1] - wide[0]))
    completed = None
    if family == "delta":
        alone = prior_of(penalty, "delta", scale=sd)
        if group_size > 1:  # that was one weight where the others are zero
            alone = _for_groups(alone, factor, group_size, sd)
    else:
        alone = prior_of(lambda mu, _: penalty(mu), family, scale=sd)
        completed = prior_of(penalty_of(Gaussian(sd) if squared else Laplace(sd), family), family, scale=sd)
    return PenaltyStudy(
        name, inputs, group_size, family, factor, _prior_name(squared, factor, group_size, inputs), sd, w,
        density / mass, penalty(w), alone, completed,
    )  # fmt: skip


def _for_groups(one: Equivalence, factor: float, d: int, sd: float) -> Equivalence:
    log_mass = math.log(2) + d / 2 * math.log(math.pi) + math.lgamma(d) - math.lgamma(d / 2) - d * math.log(factor)
    reason = f"exp(-lambda ||w||) is integrable over {d} weights, to exp({log_mass:.4g}); each has sd {sd:.4g}"
    return replace(one, reason=reason, mass=math.exp(log_mass), sd=sd)


def _prior_name(squared: bool, factor: float, group_size: int, inputs: int) -> str:
    if squared:
        return f"Gaussian N(0, 1/{inputs})"
    if group_size == 1:
        return f"Laplace with b = 1/lambda = {1 / factor:.4g}"
    return f"exp(-lambda ||w||) over each group of {group_size} weights"


def _log_marginal(w: Array, factor: float, group_size: int) -> Array:
    log_s = np.linspace(-30, 12, 1201) - math.log(factor)
    s = np.exp(log_s)
    logs = np.empty_like(w)
    for start in range(0, len(w), 1000):
        part = slice(start, start + 1000)
        inner = (group_size - 1) * log_s - factor * np.hypot(w[part, None], s)
        top = inner.max(-1)
        logs[part] = top + np.log(np.exp(inner - top[:, None]).sum(-1))
    return logs
