"""Effective rates: what multiplies the average gradient, element by element, in the last step.

PyTorch's optimisers are here; ours answer for themselves (`element_rates`).

               rate                                                             of
    sgd        lr                                                               the momentum
    adam, -w   lr / (sqrt(v / c) + eps)                                         <g>
    amsgrad    the same with the running maximum of v                           <g>
    radam      lr sqrt(r c) / (sqrt(v) + eps), and lr while there is no r yet   <g>
    rmsprop    lr / (sqrt(v) + eps), centred: v - (mean gradient)^2             g
    adagrad    lr / (1 + (t - 1) lr_decay) / (sqrt(sum g^2) + eps)              g

v is the moving average of g^2, c = 1 - b2^t its correction, <g> the bias-corrected average; r is the rectification,
    r = (l - 4)(l - 2) L / ((L - 4)(L - 2) l),    L = 2 / (1 - b2) - 1,    l = L - 2 t b2^t / c,    from l > 5 on.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.optim.optimizer import Optimizer

from posterity.optim.stepping import Group

State = dict[str, Any]


def effective_rates(optimizer: Optimizer, p: Tensor) -> Tensor | None:
    """The rates of the parameter, of its shape or one for all; None before its first step or if they are not known."""
    state: State = optimizer.state.get(p) or {}
    if not state and not isinstance(optimizer, torch.optim.SGD):
        return None
    group = next(g for g in optimizer.param_groups if any(q is p for q in g["params"]))
    for kind, rates in KNOWN.items():
        if isinstance(optimizer, kind):
            return rates(group, state)
    own: Callable[[Group, State], Tensor] | None = getattr(optimizer, "element_rates", None)
    return own(group, state) if own else None


def _sgd(group: Group, state: State) -> Tensor:
    return torch.tensor(float(group["lr"]), device="cpu")


def _adam(group: Group, state: State) -> Tensor:
    correction = 1 - group["betas"][1] ** float(state["step"])
    square: Tensor = state["max_exp_avg_sq"] if "max_exp_avg_sq" in state else state["exp_avg_sq"]
    return _over(group["lr"], (square / correction).sqrt() + group["eps"])


def _radam(group: Group, state: State) -> Tensor:
    beta2, t = group["betas"][1], float(state["step"])
    correction = 1 - beta2**t
    longest = 2 / (1 - beta2) - 1
    length = longest - 2 * t * beta2**t / correction
    if length <= 5:
        return _sgd(group, state)
    rectification = (length - 4) * (length - 2) * longest / ((longest - 4) * (longest - 2) * length)
    square: Tensor = state["exp_avg_sq"]
    return _over(group["lr"] * math.sqrt(rectification * correction), square.sqrt() + group["eps"])


def _rmsprop(group: Group, state: State) -> Tensor:
    square: Tensor = state["square_avg"]
    if group["centered"]:
        square = square - state["grad_avg"].square()
    return _over(group["lr"], square.sqrt() + group["eps"])


def _adagrad(group: Group, state: State) -> Tensor:
    lr = group["lr"] / (1 + (float(state["step"]) - 1) * group["lr_decay"])
    total: Tensor = state["sum"]
    return _over(lr, total.sqrt() + group["eps"])


def _over(rate: float, size: Tensor) -> Tensor:
    return size.reciprocal().mul_(float(rate))


KNOWN: dict[type[Optimizer], Callable[[Group, State], Tensor]] = {
    torch.optim.SGD: _sgd,
    torch.optim.RAdam: _radam,
    torch.optim.Adam: _adam,
    torch.optim.AdamW: _adam,
    torch.optim.RMSprop: _rmsprop,
    torch.optim.Adagrad: _adagrad,
}
