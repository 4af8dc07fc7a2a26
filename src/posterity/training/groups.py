"""Groups of parameters, each with its optimiser, rate and schedule: means, standard deviations, deterministic weights.

A group's rate is base_lr * schedule.factor(share of the training done). Groups with the same self-tuning optimiser
share one, which measures all their gradients even where only some of them step.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from posterity.core.errors import UsageError
from posterity.optim import Schedule
from posterity.optim.stepping import wide

MEAN, SD, DETERMINISTIC = "mean", "sd", "deterministic"


class ParameterGroup:
    """Some parameters, the optimiser that moves them and the schedule of its rate."""

    def __init__(self, name: str, optimizer: torch.optim.Optimizer, schedule: Schedule, index: int = 0) -> None:
        self.name, self.optimizer, self.schedule, self.index = name, optimizer, schedule, index
        self.base_lr: float = self.settings["lr"]

    @property
    def settings(self) -> dict[str, Any]:
        """The optimiser's settings for it."""
        settings: dict[str, Any] = self.optimizer.param_groups[self.index]
        return settings

    @property
    def parameters(self) -> list[nn.Parameter]:
        """Its parameters."""
        parameters: list[nn.Parameter] = self.settings["params"]
        return parameters

    @property
    def lr(self) -> float:
        """The rate of the last step."""
        rate: float = self.settings["lr"]
        return rate

    def gradients(self) -> list[Tensor]:
        """The gradients there are."""
        return [p.grad for p in self.parameters if p.grad is not None]

    def gradient_norm(self) -> float:
        """The Euclidean norm of all its gradients together."""
        # Not get_total_norm, whose bookkeeping takes longer than a vector or two; a dot product is half a norm's time.
        flat = (gradient.to(wide(gradient.dtype)).flatten() for gradient in self.gradients())
        return math.sqrt(sum(float(torch.dot(gradient, gradient)) for gradient in flat))

    def state(self) -> dict[str, Any]:
        """Optimiser and schedule; a shared optimiser goes with the first group."""
        optimizer = {} if self.index else self.optimizer.state_dict()
        return {"name": self.name, "optimizer": optimizer, "schedule": self.schedule.state()}

    def restore(self, state: dict[str, Any]) -> None:
        """The inverse of `state`."""
        if state["name"] != self.name:
            raise UsageError(f"the run has a group of weights '{state['name']}' where this network has '{self.name}'")
        self.schedule.restore(state["schedule"])
        if self.index:
            return
        self.optimizer.load_state_dict(state["optimizer"])
        # Fused optimisers run over the raw memory: moments must lie as their parameter does (channels-last, say).
        for parameter, kept in self.optimizer.state.items():
            for key, value in kept.items():
                if isinstance(value, Tensor) and isinstance(parameter, Tensor) and value.shape == parameter.shape != ():
                    kept[key] = torch.empty_like(parameter, dtype=value.dtype).copy_(value)


def step_groups(groups: Sequence[ParameterGroup], progress: float, rows: int) -> None:
    """One step of these groups on a batch of `rows`, at their schedules' rates; others of an optimiser stand still."""
    moving: dict[int, list[ParameterGroup]] = {}
    for group in groups:
        group.settings["lr"] = group.base_lr * group.schedule.factor(progress)
        moving.setdefault(id(group.optimizer), []).append(group)
    for together in moving.values():
        optimizer, indices = together[0].optimizer, [group.index for group in together]
        if len(optimizer.param_groups) > 1:
            for index, settings in enumerate(optimizer.param_groups):
                settings["still"] = index not in indices
        if hasattr(optimizer, "rows"):  # one that scales a batch's gradient by its size
            optimizer.rows = rows
        optimizer.step()
