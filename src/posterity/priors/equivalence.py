"""Penalties that are KL divergences, and the priors they belong to, in one dimension (source 004).

For a translation-invariant family q_{mu,nu}, a penalty r_nu(mu) equals KL(q_{mu,nu} || alpha) + K for some prior alpha
exactly if
    A_nu = -entropy(q_{0,nu}) - F^-1[ F r_nu / F q_{0,nu} ]
is the same function A for every nu and exp(A) is integrable, to kappa say; then alpha = exp(A) / kappa. (The families
here are symmetric, so that q and its mirror image are the same.) The delta family has no nu: A = -r.

Gaussian family, r = a(s2) + b(s2) mu^2: a prior exists only if it is N(0, s0^2), with b = 1 / (2 s0^2) and
a = [s2 / s0^2 + ln(s0^2 / s2) - 1] / 2 + K (the source's corollary exchanges a and b).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from posterity.core.errors import UsageError
from posterity.core.layout import Entry, Layout
from posterity.priors.deconvolution import USED, cutoff_of, deconvolve, unit_window
from posterity.priors.families import Array, Family, Function, family_named
from posterity.priors.prior import Prior, PriorRule
from posterity.priors.tabulated import Tabulated, trapezoid

PenaltyFunction = Callable[[Array, float], Array]

SPREADS = (0.1, 0.2, 0.4)  # nu, in scales
MASS_DEPTH = 12.0  # "where there is mass": within this many nats of the largest A
FAR, WIDER = 4.0, 8.0  # factors between window and prior: one that is searched again, and by how much it is widened
SEARCHES = 4
SMALLEST_EXPONENT = 1.05  # exp(A) must fall at least as |w|^-1.05


@dataclass(frozen=True)
class Equivalence:
    """Whether a penalty is a KL divergence, and the prior if so.

    dependence  largest difference (nats) between the A_nu where there is mass; 0 for the delta family
    mass        kappa, the integral of exp(A); inf if it has none
    exponent    exp(A) falls as |w|^-exponent at the edge of the window
    resolution  finest detail of A that the data allow (1 / T of the low pass), in the units of w; 0 for delta
    candidates  A_nu on `grid` by nu, for a look at how they differ
    log_density of the prior on `grid`, normalised; None if the penalty is not a KL
    """

    family: str
    is_kl: bool
    reason: str
    grid: Array
    candidates: dict[float, Array] = field(repr=False)
    log_density: Array | None = field(repr=False)
    dependence: float
    mass: float
    exponent: float
    resolution: float
    sd: float

    def prior(self, scale: float | str | Callable[[int, int], float] | None = None) -> Tabulated:
        """The prior as a rule to train with; `scale` stretches it to another standard deviation, by layer if a rule."""
        if self.log_density is None:
            raise UsageError(f"there is no prior: {self.reason}")
        keep = self.log_density > self.log_density.max() - 300  # a straight tail from there on
        return Tabulated(self.grid[keep], self.log_density[keep], scale)


def penalty_of(prior: PriorRule | Function, family: str = "gaussian") -> PenaltyFunction:
    """r(mu, nu) = KL(q_{mu,nu} || prior) at each mu (K,); the prior is a rule or a log density (array to array).

    For the delta family r(mu) = -log prior(mu), the KL up to a constant that does not depend on mu.
    """
    known = family_named(family)

    def penalty(mu: Array, nu: float = 0.0) -> Array:
        mu = np.asarray(mu, dtype=np.float64)
        if known.name == "delta":
            return -_log_density(prior, mu)
        if not nu > 0:
            raise UsageError(f"the {known.name} family needs a standard deviation nu above 0, not {nu}")
        if known.name == "gaussian" and not callable(prior):
            mean = torch.from_numpy(mu)
            expected = _bound(prior, len(mu)).expected_log_density(mean, torch.full_like(mean, nu)).numpy()
        else:
            expected = known.expect(lambda w: _log_density(prior, w), mu, nu)
        return -known.entropy_at(nu) - expected

    return penalty


def prior_of(
    penalty: PenaltyFunction | Function,
    family: str = "gaussian",
    *,
    scale: float = 1.0,
    spreads: Sequence[float] = SPREADS,
    tolerance: float = 1e-2,
) -> Equivalence:
    """Whether `penalty` r(mu, nu) (r(w) for the delta family) is a KL, and of which prior.

    `scale` is the prior's expected standard deviation, up to a factor of a few; `spreads` are the nu, in scales.
    Where the prior turns out much wider or narrower than `scale`, it is found once more on the window that fits.
    """
    known = family_named(family)
    if not (math.isfinite(scale) and scale > 0):
        raise UsageError(f"the expected scale of the prior must be a positive number, not {scale}")
    if known.name != "delta" and (len(set(spreads)) < 2 or min(spreads) <= 0):
        raise UsageError(f"a prior must fit for every nu: give at least two different positive ones, not {spreads}")

    def elsewhere(scale: float) -> Equivalence | None:
        try:
            with np.errstate(over="ignore", invalid="ignore"):
                return _on_window(penalty, known, scale, spreads, tolerance)
        except UsageError:  # the penalty overflows there
            return None

    found = _widened(_on_window(penalty, known, scale, spreads, tolerance), elsewhere, scale, tolerance)
    for _ in range(SEARCHES):
        if not found.is_kl or scale / FAR < found.sd < scale * FAR or not math.isfinite(found.sd):
            break
        scale = found.sd
        found = elsewhere(scale) or found
    return found


def _widened(
    first: Equivalence, elsewhere: Callable[[float], Equivalence | None], scale: float, tolerance: float
) -> Equivalence:
    """What wider windows show where this one's edge is still within the prior: a fall that has not begun there.

    A power law falls with the same exponent on the next window: it is what it seems, without a standard deviation or
    without an integral. What is a KL on no window is reported as on the first.
    """
    found = first
    for _ in range(SEARCHES):
        if found.dependence > tolerance or math.isfinite(found.sd):
            break
        scale *= WIDER
        wider = elsewhere(scale)
        if wider is None or wider.dependence > tolerance:
            break
        if abs(wider.exponent - found.exponent) < 0.02 * abs(wider.exponent) + 1e-3:
            break
        found = wider
    return found if found.is_kl else first


def _on_window(
    penalty: PenaltyFunction | Function, family: Family, scale: float, spreads: Sequence[float], tolerance: float
) -> Equivalence:
    """The verdict on the window of this scale."""
    window = scale * unit_window()
    used = np.abs(window) <= USED * scale
    if family.name == "delta":
        candidates, sharp, resolution = {0.0: -_values(penalty(window))}, None, 0.0  # type: ignore[call-arg]
    else:
        nus = sorted(scale * s for s in spreads)
        r = {nu: _values(penalty(window, nu)) for nu in nus}  # type: ignore[call-arg]
        cuts = {nu: cutoff_of(r[nu], nu, family, scale) for nu in nus}
        candidates = {nu: deconvolve(r[nu], nu, family, scale, min(cuts.values())) for nu in nus}
        sharp, resolution = deconvolve(r[nus[0]], nus[0], family, scale, cuts[nus[0]]), 1 / cuts[nus[0]]
    candidates = {nu: a[used] for nu, a in candidates.items()}
    best = next(iter(candidates.values())) if sharp is None else sharp[used]
    return _judge(family, window[used], candidates, best, scale, resolution, tolerance)


def quadratic_prior(
    a: Callable[[float], float],
    b: Callable[[float], float],
    *,
    variances: Sequence[float] = (1e-4, 1e-2, 0.1, 1.0, 10.0),
    tolerance: float = 1e-8,
) -> Equivalence:
    """The closed-form case: Gaussian family, r = a(s2) + b(s2) mu^2, at the given s2."""
    slopes, offsets = np.array([b(v) for v in variances]), np.array([a(v) for v in variances])
    s02 = 1 / (2 * slopes[0]) if slopes[0] > 0 else math.inf
    wanted = np.array([0.5 * (v / s02 - math.log(v) - 1) for v in variances])  # up to the constant log(s02) / 2
    gap = offsets - wanted
    dependence = float(np.ptp(gap) + np.ptp(slopes) / abs(slopes[0]) if slopes[0] else math.inf)
    sd = math.sqrt(s02)
    if not slopes[0] > 0:
        reason = f"b = {slopes[0]:.3g} is not positive: exp(A) cannot be integrated"
    elif np.ptp(slopes) > tolerance * slopes[0]:
        reason = f"b(s2) is not constant: from {slopes.min():.4g} to {slopes.max():.4g}"
    elif np.ptp(gap) > tolerance * (1 + np.abs(offsets).max()):
        reason = (
            f"a(s2) is not (s2/s0^2 + ln(s0^2/s2) - 1) / 2 + K for s0^2 = {s02:.4g}: it is off by {np.ptp(gap):.3g}"
        )
    else:
        grid = sd * unit_window()[np.abs(unit_window()) <= USED]
        log_density = -0.5 * (grid / sd) ** 2 - math.log(sd) - 0.5 * math.log(2 * math.pi)
        constant = float(gap[0]) - 0.5 * math.log(s02)
        reason, mass = f"it is KL(q || N(0, {s02:.4g})){_constant(constant)}", math.exp(-constant)
        return Equivalence("gaussian", True, reason, grid, {}, log_density, dependence, mass, math.inf, 0.0, sd)
    return Equivalence("gaussian", False, reason, np.empty(0), {}, None, dependence, math.nan, math.nan, 0.0, math.nan)


def _bound(prior: PriorRule, count: int) -> Prior:
    layout = Layout((Entry("w", (count,), 1, 1),))
    return prior.bind(layout, torch.zeros(count, dtype=torch.float64))


def _log_density(prior: PriorRule | Function, w: Array) -> Array:
    if callable(prior):
        return _values(prior(w))
    flat = torch.from_numpy(np.ascontiguousarray(w).reshape(-1))
    values: Array = _bound(prior, len(flat)).log_density_by_weight(flat).numpy().reshape(w.shape)
    return values


def _values(values: Array) -> Array:
    array = np.asarray(values, dtype=np.float64)
    if not np.isfinite(array).all():
        raise UsageError("the penalty is not finite on the whole window: its prior would have bounded support")
    return array


def _judge(
    family: Family,
    grid: Array,
    candidates: dict[float, Array],
    best: Array,
    scale: float,
    resolution: float,
    tolerance: float,
) -> Equivalence:
    reference = next(iter(candidates.values()))
    somewhere = (best >= best.max() - MASS_DEPTH) | (np.abs(grid) <= scale)
    dependence = max(float(np.abs(a - reference)[somewhere].max()) for a in candidates.values())
    exponent, mass, sd = _integrate(grid, best)
    log_density = None
    if not dependence <= tolerance:
        reason = (
            f"A_nu depends on nu: it changes by {dependence:.3g} nats between nu = {min(candidates):.3g} and "
            f"{max(candidates):.3g}; for a KL it would be the same"
        )
    elif not math.isfinite(mass):
        how = "grows" if exponent < -0.01 else f"falls only as |w|^{-max(exponent, 0):.2g}"
        reason = (
            f"exp(A) cannot be integrated: at |w| = {USED * scale:.3g} it {how} "
            f"(if the prior is wider than that, give a larger scale than {scale:.3g})"
        )
    else:
        log_density = best - math.log(mass)
        reason = f"it is KL(q || prior){_constant(-math.log(mass))}, with a prior of standard deviation {sd:.4g}"
    return Equivalence(
        family.name, log_density is not None, reason, grid, candidates, log_density, dependence, mass, exponent,
        resolution, sd,
    )  # fmt: skip


def _constant(value: float) -> str:
    return f" {'+' if value > 0 else '-'} {abs(value):.3g}" if abs(value) > 1e-3 else ""


def _integrate(grid: Array, a: Array) -> tuple[float, float, float]:
    """How exp(A) falls at the edges, its mass and its standard deviation, with tails of that power beyond them."""
    step, eighth = grid[1] - grid[0], len(grid) // 8
    slopes = [
        float(np.polyfit(np.log(np.abs(grid[side])), a[side], 1)[0])
        for side in (slice(None, eighth), slice(-eighth, None))
    ]
    exponent = -max(slopes)
    if not exponent > SMALLEST_EXPONENT or a.max() > 700:
        return exponent, math.inf, math.nan
    density = np.exp(a)

    def moment(power: int) -> float:
        total = trapezoid(density * grid**power, step)
        for end, slope in zip((0, -1), slopes, strict=True):
            if power >= -slope - 1:
                return math.inf
            total += float(density[end] * grid[end] ** power * abs(grid[end]) / (-slope - 1 - power))
        return total

    mass, first, second = (moment(power) for power in (0, 1, 2))
    variance = second / mass - (first / mass) ** 2 if math.isfinite(second) else math.inf
    return exponent, mass, math.sqrt(max(variance, 0.0))
