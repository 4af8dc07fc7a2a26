"""A penalty's factor for each layer of a network, in closed form and by two other ways        (SPEC 6, 13, W2).

    theory    lambda_l of `FromPenalty`, with which a network is trained: n/2, sqrt(2 n), sqrt((d + 1) n)
    computed  the lambda at which adaptive quadrature of  x^2 x^(d-1) exp(-lambda x^k)  gives the variance c / n
    sampled   n / c times the variance of weights that are drawn from the prior with theory's lambda: 1

with n inputs, groups of d weights, k = 2 for l2 and 1 for norms, c = 1 for Glorot's variance and 2 for that of the Edge
of Chaos. The quadrature is SciPy's, and shares nothing with the closed forms.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from scipy.integrate import quad
from scipy.optimize import brentq

from posterity.core.layout import Layout
from posterity.core.randomness import generator
from posterity.models import build_model
from posterity.priors import PENALTIES, VARIANCES, FromPenalty


def penalty_by_layer(
    *, penalty: str, model: str = "lenet5", side: int = 28, variance: str = "glorot", draws: int = 2, seed: int = 0
) -> dict[str, Any]:
    """The largest |computed / theory - 1| over a network's weight matrices, and sampled - 1 over all their weights.

    The history has a record a matrix (or a convolution's weight): inputs, group, theory, computed, sampled.
    """
    layout = Layout.of(build_model(model, (3 if side == 32 else 1, side, side), 10))
    flat = FromPenalty(penalty, variance=variance).bind(layout, torch.zeros(1, dtype=torch.float64))
    random = generator(seed, "weights")
    noise = torch.randn(draws, layout.num_weights, generator=random, dtype=torch.float64)
    squares = flat.sample(noise).square().mean(0)
    history, place = [], 0
    for number, (entry, theory) in enumerate(zip(layout.entries, flat.factors.tolist(), strict=True), start=1):
        part = slice(place, place + entry.size)
        place += entry.size
        if len(entry.shape) < 2:
            continue
        d, n = PENALTIES[penalty].group_size(entry), entry.fan_in / VARIANCES[variance]
        history.append({
            "epoch": number, "inputs": entry.fan_in, "group": d, "theory": theory,
            "computed": computed_factor(2 if PENALTIES[penalty].squared else 1, d, 1 / n),
            "sampled": n * float(squares[part].mean()), "weights": entry.size,
        })  # fmt: skip
    return {
        "deviation": max(abs(record["computed"] / record["theory"] - 1) for record in history),
        "sampled": sum(r["sampled"] * r["weights"] for r in history) / sum(r["weights"] for r in history) - 1,
        "history": history,
    }


def computed_factor(power: int, d: int, variance: float) -> float:
    """lambda such that one of d weights with the density exp(-lambda |w|^power) has this variance."""

    def spread(log_factor: float) -> float:
        # In units of the mode of x^(d+1) exp(-lambda x^power), in logs: d may be thousands.
        factor = math.exp(log_factor)
        mode = ((d + 1) / (power * factor)) ** (1 / power)
        top = (d + 1) * math.log(mode) - factor * mode**power

        def moment(more: int) -> float:
            def integrand(x: float) -> float:
                return (
                    math.exp((d - 1 + more) * math.log(x) - factor * x**power - top) if x > 0 else float(d + more == 1)
                )

            breaks = [mode * (1 + step / math.sqrt(d + 1)) for step in (-4, -1, 0, 1, 4)]
            end = mode * (1 + 40 / math.sqrt(d + 1))
            return float(quad(integrand, 0, end, points=[b for b in breaks if b > 0], limit=400, epsabs=0)[0])

        return math.log(moment(2) / moment(0) / d) - math.log(variance)

    guess = -math.log(variance) if power == 2 else 0.5 * math.log(1 / variance)
    return math.exp(brentq(spread, guess - 5, guess + 12, xtol=1e-11))
