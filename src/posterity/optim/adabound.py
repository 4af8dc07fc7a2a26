"""AdaBound and AMSBound: Adam whose element-wise rates are driven into an ever narrower band around SGD's.

    m = b1 m + (1 - b1) g
    v = b2 v + (1 - b2) g^2                      AMSBound: v its running maximum in what follows
    rate = clip(lr sqrt(1 - b2^t) / (1 - b1^t) / (sqrt(v) + eps), low, high)
    low  = final_lr (1 - 1 / (gamma t + 1)),     high = final_lr (1 + 1 / (gamma t))
    w   <- w - rate m

Limits: at t = 1 the band is so wide that it is Adam; as t grows it is SGD with momentum and rate final_lr.
A schedule that changes lr scales final_lr with it. `weight_decay` is added to the gradient, as in Adam.

Luo, Xiong, Liu, Sun, Adaptive gradient methods with dynamic bound of learning rate, 2019.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.optim.optimizer import ParamsT

from posterity.optim.stepping import (
    BlockOptimizer,
    Group,
    Kernel,
    check_betas,
    check_not_negative,
    check_positive,
    schedule_ratio,
)


class AdaBound(BlockOptimizer):
    """Adam at first, SGD at last."""

    def __init__(
        self,
        params: ParamsT,
        *,
        lr: float = 1e-3,
        final_lr: float = 0.1,
        gamma: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        amsbound: bool = False,
        maximize: bool = False,
    ) -> None:
        settings = {"lr": lr, "final_lr": final_lr, "gamma": gamma, "betas": betas, "eps": eps}
        super().__init__(params, {**settings, "weight_decay": weight_decay, "amsbound": amsbound, "maximize": maximize})

    def check(self, group: Group) -> None:
        """Rates and gamma positive, betas in [0, 1)."""
        check_positive("final_lr", group["final_lr"])
        check_positive("gamma", group["gamma"])
        check_betas(beta1=group["betas"][0], beta2=group["betas"][1])
        check_not_negative("eps", group["eps"])
        check_not_negative("weight decay", group["weight_decay"])

    def fresh(self, like: Tensor, group: Group) -> dict[str, Tensor]:
        """m, v and, for AMSBound, v's maximum."""
        names = ("m", "v", "v_max") if group["amsbound"] else ("m", "v")
        return {name: torch.zeros_like(like) for name in names}

    def kernel(self, group: Group, t: int) -> Kernel:
        """The clipped step, with the bounds on the rate turned into bounds on its denominator."""
        beta1, beta2 = group["betas"]
        eps, decay = group["eps"], group["weight_decay"]
        rate, low, high = self._band(group, t)

        def move(w: Tensor, g: Tensor, m: Tensor, v: Tensor, *rest: Tensor) -> None:
            scratch = rest[-1]
            if decay:
                g = torch.add(g, w, alpha=decay)
            m.lerp_(g, 1 - beta1)
            v.mul_(beta2).addcmul_(g, g, value=1 - beta2)
            if len(rest) == 2:
                v = torch.maximum(rest[0], v, out=rest[0])
            if rate == 0:
                return
            torch.sqrt(v, out=scratch).add_(eps).clamp_(rate / high, rate / low)
            w.addcdiv_(m, scratch, value=-rate)

        return move

    def element_rates(self, group: Group, state: dict[str, Any]) -> Tensor:
        """Of m, not corrected for its start: the rate between its bounds."""
        rate, low, high = self._band(group, state["step"])
        v: Tensor = state["v_max"] if "v_max" in state else state["v"]
        return v.sqrt().add_(group["eps"]).reciprocal_().mul_(rate).clamp_(low, high)

    def _band(self, group: Group, t: int) -> tuple[float, float, float]:
        """The rate's numerator, and its bounds."""
        beta1, beta2 = group["betas"]
        rate = float(group["lr"]) * math.sqrt(1 - beta2**t) / (1 - beta1**t)
        return rate, *bounds(group["final_lr"] * schedule_ratio(group), group["gamma"], t)


class AMSBound(AdaBound):
    """AdaBound with the running maximum of v."""

    def __init__(self, params: ParamsT, **settings: Any) -> None:
        super().__init__(params, **{**settings, "amsbound": True})


def bounds(final_lr: float, gamma: float, t: int) -> tuple[float, float]:
    """The least and the greatest rate at step `t`."""
    return final_lr * (1 - 1 / (gamma * t + 1)), final_lr * (1 + 1 / (gamma * t))
