"""YellowFin: SGD with momentum that tunes its rate and its momentum from the gradients it sees.

    h_max, h_min   greatest and least ||g||^2 of the last 20 steps, averaged in log space
    C = <||g||^2> - ||<g>||^2                      variance of the gradient
    D = < <||g||> / <||g||^2> >                    distance to the optimum

minimise mu D^2 + lr^2 C   over   lr = (1 - sqrt(mu))^2 / h_min,   sqrt(mu) >= (k - 1)/(k + 1),   k = sqrt(h_max/h_min)

    x = sqrt(mu) solves  p x = (1 - x)^3,   p = D^2 h_min^2 / (2 C),  or is the bound where that is greater
    rate = min(<lr>, (1 - sqrt(<mu>))^2 / h_min)
    u = <mu> u + clip g,                           clip = min(1, sqrt(h_max)/||g||), h_max of the step before
    w <- w - factor rate ramp u,                   ramp = min(1, t / 200)

<.> is an exponential average with beta = 0.999, corrected for its start at zero. Since sum <g^2> = <||g||^2>, the
variance needs one vector only. A gradient with ||g||^2 > 100 h_max is measured as if it had just that norm: one
explosion must not spoil the averages for a thousand steps [2]. A step on which every gradient is zero measures nothing.

The tuning is one for all groups: ||g||^2 stands for curvature only where g is the whole gradient. (The standard
deviations of a Bayesian network have tiny gradients at first; by themselves they would be given an enormous rate.) A
group's `lr` is its factor on the tuned rate; a `still` group is measured and not moved. A fixed `momentum` mu replaces
the tuned one: the rate is then tuned alone, on the line that goes with it.

Averages of mu and lr are not a pair: in the first steps mu is 0 and lr 1/h_min, which <lr> would remember for a
thousand steps, when <mu> has long grown. Hence the lesser of <lr> and of what goes with <mu>; <lr>, in turn, keeps the
rate from running away where ||g|| falls to 0.

Limits: C -> 0 gives x = 0, hence mu at its bound; C -> inf gives x = 1, hence lr -> 0.
A fixed momentum 0 gives lr = 1 / h_min.

[1] Zhang and Mitliagkas, YellowFin and the art of momentum tuning, 2017 (1706.03471), algorithms 1 to 4.
[2] The tuner that the authors released.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.optim.optimizer import ParamsT

from posterity.optim.stepping import BlockOptimizer, Group, Kernel, blocks, check_betas, wide

WINDOW = 20
RAMP = 10 * WINDOW
EXPLOSION = 100.0  # times h_max

Squares = tuple[float, float]


class YellowFin(BlockOptimizer):
    """Momentum SGD that tunes itself; `lr` is a factor on the tuned rate."""

    def __init__(
        self,
        params: ParamsT,
        *,
        lr: float = 1.0,
        momentum: float | None = None,
        beta: float = 0.999,
        maximize: bool = False,
        still: bool = False,
    ) -> None:
        settings = {"lr": lr, "momentum": momentum, "beta": beta}
        super().__init__(params, {**settings, "maximize": maximize, "still": still})

    def check(self, group: Group) -> None:
        """beta and a given momentum in [0, 1)."""
        check_betas(beta=group["beta"])
        if group["momentum"] is not None:
            check_betas(momentum=group["momentum"])

    def fresh(self, like: Tensor, group: Group) -> dict[str, Tensor]:
        """The average gradient and the momentum u."""
        return {"mean": torch.zeros_like(like), "u": torch.zeros_like(like)}

    def prepare(self, ready: list[tuple[Tensor, Group]]) -> None:
        """Measure all gradients together, and tune."""
        beta, h_max = self.defaults["beta"], self.measurements()["h_max"]
        square, mean_square = self._average(ready, lambda mean, g: mean.lerp_(g, 1 - beta))
        self._clip = 1.0
        if not 0 < square < math.inf:
            return
        if h_max:
            self._clip = min(1.0, math.sqrt(h_max / square))
            if square > EXPLOSION * h_max:
                # Take back what is too much: so rare that a second pass costs nothing.
                excess = (1 - beta) * (1 - math.sqrt(EXPLOSION * h_max / square))
                _, mean_square = self._average(ready, lambda mean, g: mean.sub_(g, alpha=excess))
                square = EXPLOSION * h_max
        self._tuning = self._tuning.after(square, mean_square, beta, self.defaults["momentum"])

    def _average(self, ready: list[tuple[Tensor, Group]], update: Callable[[Tensor, Tensor], Any]) -> Squares:
        """Update every <g> with its g; ||g||^2 and ||<g>||^2 over all parameters."""
        square = mean_square = 0.0
        for p, _ in ready:
            assert p.grad is not None
            for grad, mean in blocks(p.grad, self.state[p]["mean"]):
                precise = grad.to(wide(grad.dtype))
                update(mean, precise)
                square += float(torch.linalg.vector_norm(precise)) ** 2
                mean_square += float(torch.linalg.vector_norm(mean)) ** 2
        return square, mean_square

    def kernel(self, group: Group, t: int) -> Kernel:
        """Polyak's momentum with the tuned numbers."""
        mu, rate, clip = self.measurements()["mu"], self._rate(group), self._clip

        def move(w: Tensor, g: Tensor, mean: Tensor, u: Tensor, scratch: Tensor) -> None:
            u.mul_(mu).add_(g, alpha=clip)
            w.add_(u, alpha=-rate)

        return stand_still if group["still"] else move

    def measurements(self) -> dict[str, float]:
        """h_min, h_max, C, D, mu and lr (before factor and ramp) of the last step; zeros before the first."""
        return self._tuning.smoothed(self.defaults["beta"])

    def element_rates(self, group: Group, state: dict[str, Any]) -> Tensor:
        """Of the momentum u, one for all: factor rate ramp."""
        return torch.tensor(self._rate(group), device="cpu")

    def _rate(self, group: Group) -> float:
        return float(group["lr"]) * self.measurements()["lr"] * min(1.0, self._tuning.t / RAMP)

    @property
    def _tuning(self) -> Tuning:
        return Tuning(**self.shared)

    @_tuning.setter
    def _tuning(self, tuning: Tuning) -> None:
        self.shared = asdict(tuning)


@dataclass(frozen=True)
class Tuning:
    """What has been measured over `t` steps: averages that start at zero and are not yet corrected for it."""

    t: int = 0
    window: tuple[float, ...] = ()  # squared norms
    log_h_min: float = 0.0
    log_h_max: float = 0.0
    norm: float = 0.0
    square: float = 0.0
    variance: float = 0.0  # C itself
    distance: float = 0.0
    mu: float = 0.0
    lr: float = 0.0

    def after(self, square: float, mean_square: float, beta: float, momentum: float | None = None) -> Tuning:
        """With one more gradient of squared norm `square`; `mean_square` is that of the uncorrected average.

        A fixed `momentum` replaces the tuned one.
        """
        t = self.t + 1
        correction = 1 - beta**t
        window = (*self.window, square)[-WINDOW:]

        def average(old: float, new: float) -> float:
            return beta * old + (1 - beta) * new

        norm, squares = average(self.norm, math.sqrt(square)), average(self.square, square)
        measured = replace(
            self,
            t=t,
            window=window,
            log_h_min=average(self.log_h_min, math.log(min(window))),
            log_h_max=average(self.log_h_max, math.log(max(window))),
            norm=norm,
            square=squares,
            variance=max(0.0, squares / correction - mean_square / correction**2),
            distance=average(self.distance, norm / squares),
        )
        now = measured.smoothed(beta)
        if momentum is None:
            mu, lr = single_step(now["h_min"], now["h_max"], now["C"], now["D"])
        else:
            mu, lr = momentum, rate_of(math.sqrt(momentum), now["h_min"])
        return replace(measured, mu=average(self.mu, mu), lr=average(self.lr, lr))

    def smoothed(self, beta: float) -> dict[str, float]:
        """The corrected averages under their names in the equations."""
        if not self.t:
            return dict.fromkeys(("h_min", "h_max", "C", "D", "mu", "lr"), 0.0)
        correction = 1 - beta**self.t
        h_min, mu = math.exp(self.log_h_min / correction), self.mu / correction
        return {
            "h_min": h_min,
            "h_max": math.exp(self.log_h_max / correction),
            "C": self.variance,
            "D": self.distance / correction,
            "mu": mu,
            "lr": min(self.lr / correction, rate_of(math.sqrt(mu), h_min)),
        }


def single_step(h_min: float, h_max: float, variance: float, distance: float) -> tuple[float, float]:
    """(mu, lr) that are best for these measurements."""
    k = math.sqrt(h_max / h_min)
    x = (k - 1) / (k + 1)
    if variance > 0:
        x = max(x, cubic_root((distance * h_min) ** 2 / (2 * variance)))
    return x**2, rate_of(x, h_min)


def rate_of(x: float, h_min: float) -> float:
    """The rate that goes with the momentum x^2."""
    return (1 - x) ** 2 / h_min


def stand_still(*_: Tensor) -> None:
    """Move nothing."""


def cubic_root(p: float) -> float:
    """The x in [0, 1] with p x = (1 - x)^3, by bisection: the closed form loses all digits for large p."""
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if p * middle > (1 - middle) ** 3 else (middle, high)
    return 0.5 * (low + high)
