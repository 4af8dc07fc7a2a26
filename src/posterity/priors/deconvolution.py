"""The deconvolution F^-1[ F r_nu / F q_{0,nu} ] of priors.equivalence on a window, made safe.

It divides by a characteristic function that vanishes: for a Gaussian q it multiplies frequency t by
exp(nu^2 t^2 / 2). How it is made safe:
- Small nu. Features of A wider than about nu / 5 survive the smoothing in double precision; with nu a tenth of the
  prior's scale that is a fiftieth of it. All nu are in units of `scale`, which says how wide the prior is expected.
- Growth. r grows (mu^2, |mu|, log |mu|), so it has no Fourier transform on a finite window. But the regularised inverse
  filter is local, its kernel a few times nu wide: r is brought to zero by a smooth taper (an erfc, whose own spectrum
  falls like a Gaussian) between 32 and 64 scales, and only |w| < 32 scales is used.
- Noise. What q has smoothed has no power at the highest frequencies, so what is found there is noise of r (rounding,
  a quadrature's error, or a corner that no smoothing leaves). The low pass exp(-(t/T)^8) takes the largest T at which
  that noise, multiplied by the inverse filter, stays below NOISE nats in A.
- Comparison. A_nu for several nu are compared through one and the same low pass, the strictest, where exp(A) has mass:
  their differences are then due to r, not to the resolution.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from numpy.typing import NDArray

from posterity.priors.families import Array, Family

POINTS, STEP = 8192, 1 / 64  # the window: +-64 scales
TAPER, TAPER_WIDTH, USED = 48.0, 2.5, 32.0  # in scales: erfc(16 / 2.5) = 1e-19 at both ends of the taper
NOISE = 1e-4


def unit_window() -> Array:
    """The window's points, in scales."""
    return (np.arange(POINTS) - POINTS // 2).astype(np.float64) * STEP


def _spectrum(r: Array, scale: float) -> tuple[Array, NDArray[np.complex128]]:
    """Frequencies, and the transform of the tapered penalty."""
    inside = torch.special.erfc(torch.from_numpy((np.abs(unit_window()) - TAPER) / TAPER_WIDTH)).numpy() / 2
    frequencies = 2 * np.pi * np.fft.rfftfreq(POINTS, STEP * scale)
    return frequencies.astype(np.float64), np.fft.rfft(r * inside)


def _low_pass(t: Array, cutoff: float) -> Array:
    return np.exp(-np.minimum((t / cutoff) ** 8, 700.0))


def cutoff_of(r: Array, nu: float, family: Family, scale: float) -> float:
    """T of the low pass, from the noise at the highest frequencies."""
    t, transform = _spectrum(r, scale)
    rounding = np.finfo(float).eps * np.abs(r).max() * math.sqrt(POINTS)
    floor = max(float(np.median(np.abs(transform[t > 0.75 * t[-1]]))), rounding)
    growth = 1 / np.maximum(family.characteristic(nu * t), 1e-100)
    best = 0.5 / nu
    for cutoff in np.geomspace(0.5 / nu, 0.6 * t[-1], 200):
        if math.sqrt(2 * float(((_low_pass(t, cutoff) * growth) ** 2).sum())) * floor / POINTS > NOISE:
            break
        best = float(cutoff)
    return best


def deconvolve(r: Array, nu: float, family: Family, scale: float, cutoff: float) -> Array:
    """A_nu on the window, through the low pass."""
    t, transform = _spectrum(r, scale)
    kept = _low_pass(t, cutoff) / np.maximum(family.characteristic(nu * t), 1e-100)
    return -family.entropy_at(nu) - np.fft.irfft(transform * kept, POINTS)
