"""AdaBayes: a Kalman filter for each weight's optimum, whose posterior variance is the weight's rate.

    g    gradient of the summed loss: a mean loss's times the rows of its batch
    eta  Adam's rate,  s2 = lr_sgd / batch size,  <.> Adam's bias-corrected averages

AdaBayes                                                              [1, algorithm 1]
    1/s2_post = 1/s2_prior + g^2
    s2_prior  = (1 - eta^2/(2 s2))^2 s2_post + eta^2                  s2 at first
    w        <- (1 - decay) w - s2_post <g>

AdaBayes-FP: the filter's fixed point at once                         [1, algorithm 2]
    1/s2_post = 1/(2 s2) + sqrt(1/(4 s2^2) + <g^2>/eta^2)             [1, eq. 20]
    w        <- (1 - decay) w - s2_post <g>

Limits: <g^2> -> 0 gives SGD with rate s2; s2 -> inf gives AdamW with rate eta (whose weight decay is decay/eta).

A schedule that makes lr r times what it was at first scales eta, s2, s2_prior and decay by r: then the fixed point
is r times what it was, and the filter is there at once. The factor 1 - eta^2/(2 s2) is that of a decaying process:
it is kept from falling below 0.

With a mean loss the batch size n cancels in AdaBayes-FP: s2_post n = 1/(1/(2 lr_sgd) + sqrt(1/(4 lr_sgd^2) +
<g^2>/eta^2)) with g the mean's gradient. Elsewhere it is needed: give it, or set `optimizer.batch_size`.

A short batch has a gradient of fewer rows, while s2 stays: set `optimizer.rows` before each step where batches differ.
What is averaged, in m and v, is the mean's gradient times rows / batch size.

AdaBayes-FP is a step of PyTorch's fused Adam, one pass over the vectors: with half = eta / (2 s2) in the units of
the gradient, eta <g> / (half + sqrt(half^2 + <g^2>)) is Adam's with eps = half, where its v averages g^2 + half^2:

    v <- b2 (v + half^2 (1 - b2) / b2) + (1 - b2) g^2,      v / (1 - b2^t) = <g^2> + half^2

[1] Aitchison, Bayesian filtering unifies adaptive and non-adaptive neural network optimization methods, 2020.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import increment_version
from torch.optim.optimizer import ParamsT

from posterity.core.errors import UsageError
from posterity.optim.stepping import (
    BlockOptimizer,
    Group,
    Kernel,
    check_betas,
    check_positive,
    schedule_ratio,
)

REDUCTIONS = ("mean", "sum")
LEAST_BETA = 1e-12  # of v's average, whose lift is over it
LEAST_HALF = 1e-30  # in the unmoved step of a group without a rate yet


class AdaBayes(BlockOptimizer):
    """Algorithm 1: the filter itself."""

    _rows: int | None = None

    def __init__(
        self,
        params: ParamsT,
        *,
        lr: float = 1e-3,
        lr_sgd: float = 0.1,
        batch_size: int | None = None,
        reduction: str = "mean",
        betas: tuple[float, float] = (0.9, 0.999),
        weight_decay: float = 0.0,
        maximize: bool = False,
    ) -> None:
        settings = {"lr": lr, "lr_sgd": lr_sgd, "batch_size": batch_size, "reduction": reduction, "betas": betas}
        super().__init__(params, {**settings, "weight_decay": weight_decay, "maximize": maximize})

    @property
    def batch_size(self) -> int | None:
        """Rows of a whole batch."""
        size: int | None = self.param_groups[0]["batch_size"]
        return size

    @batch_size.setter
    def batch_size(self, size: int) -> None:
        check_positive("the batch size", size)
        for group in self.param_groups:
            group["batch_size"] = size

    @property
    def rows(self) -> int | None:
        """Rows in the batch of the coming steps; None is a whole batch's."""
        return self._rows

    @rows.setter
    def rows(self, rows: int | None) -> None:
        if rows is not None:
            check_positive("rows", rows)
        self._rows = rows

    def check(self, group: Group) -> None:
        """lr_sgd and batch size positive, betas in [0, 1), a known reduction."""
        check_positive("lr_sgd", group["lr_sgd"])
        check_betas(beta1=group["betas"][0], beta2=group["betas"][1])
        if not 0 <= group["weight_decay"] <= 1:
            raise UsageError(f"weight_decay must lie in [0, 1], got {group['weight_decay']}")
        if group["reduction"] not in REDUCTIONS:
            raise UsageError(f"reduction must be one of {', '.join(REDUCTIONS)}, got {group['reduction']!r}")
        if group["batch_size"] is not None:
            check_positive("the batch size", group["batch_size"])

    def fresh(self, like: Tensor, group: Group) -> dict[str, Tensor]:
        """m and the prior precision 1/s2_prior."""
        return {"m": torch.zeros_like(like), "precision": torch.full_like(like, 1 / prior_variance(group))}

    def kernel(self, group: Group, t: int) -> Kernel:
        """The filter in units of the schedule's ratio r: variances over r, so that they need no rescaling."""
        beta1 = group["betas"][0]
        ratio, factor, share = schedule_ratio(group), summed(group), self._share(group)
        eta2, forget = self._spread(group)
        decay = self._decay(group)
        rate = ratio * factor / (1 - beta1**t)

        def move(w: Tensor, g: Tensor, m: Tensor, precision: Tensor, scratch: Tensor) -> None:
            g = g if share == 1 else g * share
            m.lerp_(g, 1 - beta1)
            precision.addcmul_(g, g, value=ratio * factor**2)
            if decay:
                w.mul_(1 - decay)
            w.addcdiv_(m, precision, value=-rate)
            torch.mul(precision, eta2, out=scratch).add_(forget)
            precision.div_(scratch)

        return move

    def element_rates(self, group: Group, state: dict[str, Any]) -> Tensor:
        """Of <g>: s2_post, times what makes g that of a sum.

        From the s2_prior that it was made into (which itself is given if all was forgotten).
        """
        eta2, forget = self._spread(group)
        prior: Tensor = 1 / state["precision"]
        return schedule_ratio(group) * summed(group) * ((prior - eta2) / forget if forget else prior)

    def _share(self, group: Group) -> float:
        """What a mean loss's gradient counts for beside that of a whole batch."""
        return 1.0 if self.rows is None or group["reduction"] == "sum" else self.rows / nominal(group)

    def _decay(self, group: Group) -> float:
        """The share of a weight that a step takes from it."""
        return float(schedule_ratio(group) * group["weight_decay"])

    def _spread(self, group: Group) -> tuple[float, float]:
        """How s2_prior follows from s2_post: what is added, and what is left of it."""
        eta2: float = schedule_ratio(group) * group["reference_lr"] ** 2
        return eta2, max(0.0, 1 - eta2 / (2 * prior_variance(group))) ** 2


class AdaBayesFP(AdaBayes):
    """Algorithm 2: the filter's fixed point."""

    def fresh(self, like: Tensor, group: Group) -> dict[str, Tensor]:
        """Adam's m and v, the latter with half^2 in its average."""
        return {"m": torch.zeros_like(like), "v": torch.zeros_like(like)}

    def prepare(self, ready: list[tuple[Tensor, Group]]) -> None:
        """Where half is not what it was (lr_sgd was set, or the first rate that is not 0), what v has of it follows."""
        for group in self.param_groups:
            schedule_ratio(group)  # a group that was built with rate 0 has its reference from now on
            lift = sgd_share(group) ** 2
            change, group["lift"] = lift - group.get("lift", 0.0), lift
            for p in group["params"] if change else ():
                if kept := self.state.get(p):
                    kept["v"].add_(change * (1 - group["betas"][1] ** kept["step"]))

    def kernel(self, group: Group, t: int) -> Kernel:
        """`filter` of one block."""
        moving = self.filter(group, t)
        return lambda w, g, m, v, _: moving([w], [g], [m], [v])

    def filter(self, group: Group, t: int) -> Kernel:
        """Adam's step with eps = half, which no schedule changes, on lifted v: of lists of w, g, m and v."""
        beta1, beta2 = group["betas"][0], max(group["betas"][1], LEAST_BETA)
        rate, half, share = float(group["lr"]), sgd_share(group), self._share(group)
        decay = self._decay(group)
        lift, eps = half**2 * (1 - beta2) / beta2, max(half, LEAST_HALF)

        def move(w: list[Tensor], g: list[Tensor], m: list[Tensor], v: list[Tensor]) -> None:
            g = g if share == 1 else list(torch._foreach_mul(g, share))
            if decay:
                torch._foreach_mul_(w, 1 - decay)
            torch._foreach_add_(v, lift)
            # What Adam(fused=True) calls: its own Python takes longer than the step of a small network.
            torch._fused_adam_(
                w, g, m, v, [], [torch.tensor(float(t), device=w[0].device)] * len(w),
                lr=rate, beta1=beta1, beta2=beta2, weight_decay=0.0, eps=eps, amsgrad=False, maximize=False,
            )  # fmt: skip
            increment_version(w)

        return move

    def element_rates(self, group: Group, state: dict[str, Any]) -> Tensor:
        """Of <g>: s2_post, times what makes g that of a sum."""
        lifted: Tensor = state["v"] / (1 - group["betas"][1] ** state["step"])
        return float(group["lr"]) / (lifted.sqrt_() + sgd_share(group))


def steady_precision(mean_square: Tensor, eta: float, s2: float) -> Tensor:
    """Fixed point of the filter's precision, 1/s2_post, for gradients with this mean square."""
    half = 0.5 / s2
    return half + (half**2 + mean_square / eta**2).sqrt()


def prior_variance(group: Group) -> float:
    """s2 before any schedule."""
    return float(group["lr_sgd"]) / nominal(group)


def summed(group: Group) -> int:
    """What a whole batch's gradient is multiplied with to be that of the summed loss."""
    return nominal(group) if group["reduction"] == "mean" else 1


def sgd_share(group: Group) -> float:
    """eta / (2 s2) over the factor that makes the gradient that of a sum: large where the step is SGD's."""
    share: float = group["reference_lr"] / (2 * group["lr_sgd"])
    return share if group["reduction"] == "mean" else share * nominal(group)


def nominal(group: Group) -> int:
    """Rows of a whole batch, which must be known by now."""
    if group["batch_size"] is None:
        raise UsageError(
            "AdaBayes needs the batch size: give batch_size=..., or set optimizer.batch_size before a step"
        )
    size: int = group["batch_size"]
    return size
