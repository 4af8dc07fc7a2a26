"""The prior that is recovered from a penalty, and whether there is one        (source 004, theorem and corollary).

Penalties r(mu, nu) of q_{mu,nu}, of a family with mean mu and standard deviation nu:

    gaussian, laplace, student, mixture    KL(q || that prior): the prior must come back
    shifted       KL(q || N(0, 1)) + 3: a constant changes nothing
    mean-square   mu^2 / 2, the weight decay of the means alone      A_nu depends on nu
    mean-abs      sqrt(2) |mu|                                       A_nu depends on nu
    exchanged     a and b of the corollary as printed in source 004  A_nu depends on nu
    cold          E_q[w^2 / 2] - entropy / 2                         A_nu depends on nu
    flat          -entropy: A = 0                                    exp(A) has no integral
    heavy         KL to (1 + w^2)^(-1/2)                             exp(A) has no integral
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from posterity.core.errors import unknown_name
from posterity.priors import Gaussian, Laplace, ScaleMixture, StudentT
from posterity.priors.equivalence import Equivalence, PenaltyFunction, penalty_of, prior_of
from posterity.priors.families import Array, Function, family_named
from posterity.priors.prior import PriorRule

REACH, SHOWN = 5.0, 101  # of the curves, in standard deviations
GAUSSIAN = "gaussian"
STUDENT, NARROW, WIDE, PI = 5.0, 0.5, 1.5, 0.5


def _normal(w: Array, sd: float = 1.0) -> Array:
    density: Array = np.exp(-0.5 * (w / sd) ** 2) / (sd * math.sqrt(2 * math.pi))
    return density


def _student(w: Array) -> Array:
    df = STUDENT  # at a standard deviation of 1, w^2 / (df - 2) takes the place of t^2 / df
    constant = math.exp(math.lgamma((df + 1) / 2) - math.lgamma(df / 2)) / math.sqrt((df - 2) * math.pi)
    density: Array = constant * (1 + w**2 / (df - 2)) ** (-(df + 1) / 2)
    return density


# Priors as rules, whose KL the library computes, and their densities, written here once more for comparison.
PRIORS: dict[str, tuple[PriorRule, Function]] = {
    "gaussian": (Gaussian(1.0), _normal),
    "laplace": (Laplace(1.0), lambda w: np.exp(-math.sqrt(2) * np.abs(w)) / math.sqrt(2)),
    "student": (StudentT(1.0, df=STUDENT), _student),
    "mixture": (
        ScaleMixture(pi=PI, sd1=WIDE, sd2=NARROW),
        lambda w: PI * _normal(w, WIDE) + (1 - PI) * _normal(w, NARROW),
    ),
}


def penalty_recovery(*, penalty: str, family: str = GAUSSIAN, seed: int = 0) -> dict[str, Any]:
    """Whether `penalty` is a KL of the family, by both conditions, and how far the prior is from the one that it is.

    distance    total variation between the prior that is found and the true one, where both are
    integrable  1 where exp(A) has an integral;  dependence: the largest difference (nats) between the A_nu
    The history has a record a weight: `found` and `true` densities, and A_nu at three nu. Nothing is drawn.
    """
    known: dict[str, Callable[[str], PenaltyFunction]] = {
        **{name: lambda f, rule=rule: penalty_of(rule, f) for name, (rule, _) in PRIORS.items()},  # type: ignore[misc]
        **OTHERS,
    }
    if penalty not in known:
        raise unknown_name("penalty", penalty, known)
    verdict = prior_of(known[penalty](family), family, scale=1.0)
    found = {
        "is_kl": float(verdict.is_kl),
        "dependence": verdict.dependence,
        "integrable": float(math.isfinite(verdict.mass)),
    }
    true = PRIORS["gaussian" if penalty == "shifted" else penalty][1] if penalty in (*PRIORS, "shifted") else None
    if true is not None and verdict.log_density is not None:
        step = verdict.grid[1] - verdict.grid[0]
        difference = np.abs(np.exp(verdict.log_density) - true(verdict.grid))
        found["distance"] = 0.5 * float(difference.sum() * step)
    return {**found, "history": _curves(verdict, true)}


def _curves(verdict: Equivalence, true: Function | None) -> list[dict[str, float]]:
    records = []
    for number, w in enumerate(np.linspace(-REACH, REACH, SHOWN), start=1):
        record: dict[str, float] = {"epoch": number, "w": float(w)}
        for place, values in enumerate(verdict.candidates.values(), start=1):
            record[f"a{place}"] = float(np.interp(w, verdict.grid, values))
        if verdict.log_density is not None:
            record["found"] = float(np.interp(w, verdict.grid, np.exp(verdict.log_density)))
        if true is not None:
            record["true"] = float(true(np.array([w]))[0])
        records.append(record)
    return records


def _shifted(family: str) -> PenaltyFunction:
    penalty = penalty_of(Gaussian(1.0), family)
    return lambda mu, nu: penalty(mu, nu) + 3.0


def _exchanged(family: str) -> PenaltyFunction:
    del family
    return lambda mu, nu: 0.5 + 0.5 * (nu**2 - 2 * math.log(nu) - 1) * mu**2


def _cold(family: str) -> PenaltyFunction:
    entropy = family_named(family).entropy_at
    return lambda mu, nu: 0.5 * (mu**2 + nu**2) - 0.5 * entropy(nu)


def _flat(family: str) -> PenaltyFunction:
    entropy = family_named(family).entropy_at
    return lambda mu, nu: np.full_like(mu, -entropy(nu))


OTHERS: dict[str, Callable[[str], PenaltyFunction]] = {
    "shifted": _shifted,
    "mean-square": lambda _: lambda mu, nu: 0.5 * mu**2,
    "mean-abs": lambda _: lambda mu, nu: math.sqrt(2) * np.abs(mu),
    "exchanged": _exchanged,
    "cold": _cold,
    "flat": _flat,
    "heavy": lambda family: penalty_of(lambda w: -0.5 * np.log1p(w**2), family),
}
