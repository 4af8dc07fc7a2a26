"""Means, standard deviations and deterministic weights: each group has its own optimiser, rate and schedule.

    together     every group steps in every step (the default)
    by ratio     lr_sd = lr_ratio * lr_mean
    alternating  for `alternate` epochs the standard deviations stand still, for as many the rest does, and so on

IVON trains the whole posterior in one group (training.ivon). SGLD, plain or preconditioned, moves a point network with
    U = (num_data / temperature) loss,    loss = nll + temperature (-log prior) / num_data
whose Langevin dynamics samples exp(-U) = P(y | w)^(1 / temperature) prior(w): what the tempered ELBO's q approximates.
Under both, deterministic weights are trained by Adam.

A group's rate is base_lr * schedule.factor(share of the training done). Groups with the same self-tuning optimiser
(YellowFin) share one, which measures all their gradients even where only some of them step.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from posterity.bayesian import BayesianModule
from posterity.core.errors import UsageError
from posterity.core.randomness import derive
from posterity.objectives.tempering import as_rule
from posterity.optim import OPTIMIZERS, Schedule, build_optimizer, build_schedule
from posterity.posteriors import Point
from posterity.training.ivon import PosteriorIVON
from posterity.training.settings import LANGEVIN, Settings

SD = "sd"
# IVON moves means and standard deviations as one; Langevin dynamics moves a point and is the posterior's sampler.
# Their default rates are those at which the drift alone is plain SGD (or RMSprop) with this rate on the mean loss.
DRIFT = {"sgld": 0.05, "psgld": 1e-3}
SAMPLERS = ("ivon", *LANGEVIN)


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


def step_groups(groups: list[ParameterGroup], progress: float) -> None:
    """One step of these groups at their schedules' rates; what else a shared optimiser has stands still."""
    moving: dict[int, list[ParameterGroup]] = {}
    for group in groups:
        group.settings["lr"] = group.base_lr * group.schedule.factor(progress)
        moving.setdefault(id(group.optimizer), []).append(group)
    for together in moving.values():
        optimizer, indices = together[0].optimizer, [group.index for group in together]
        if len(optimizer.param_groups) > 1:
            for index, settings in enumerate(optimizer.param_groups):
                settings["still"] = index not in indices
        optimizer.step()


def build_groups(net: BayesianModule, settings: Settings, *, num_data: int, batch_size: int) -> list[ParameterGroup]:
    """The groups of `net`, as `settings` want them trained."""
    groups = {name: list(parameters) for name, parameters in net.posterior.groups().items()}
    if not groups:
        raise UsageError(f"a posterior of the family '{net.posterior.kind}' has nothing to train")
    if settings.optimizer in SAMPLERS:
        return _sampler_groups(net, settings, num_data)
    known = {id(p) for parameters in groups.values() for p in parameters}
    groups["deterministic"] = [p for p in net.parameters() if p.requires_grad and id(p) not in known]
    given = {"num_data": num_data, "batch_size": batch_size}
    built: list[ParameterGroup] = []
    shared: dict[tuple[str, str], torch.optim.Optimizer] = {}
    for name, parameters in groups.items():
        if not parameters:
            continue
        optimizer, lr, options, schedule, schedule_options = _plan(name, settings)
        if optimizer in SAMPLERS:
            raise UsageError(f"'{optimizer}' cannot train the standard deviations by themselves")
        needed = {key: given[key] for key in OPTIMIZERS[optimizer].needs if key not in options}
        same = (optimizer, repr(sorted(options.items())))
        if same in shared:
            made = shared[same]
            made.add_param_group({"params": parameters, "lr": lr})
        else:
            made = build_optimizer(optimizer, [{"params": parameters}], lr=lr, **needed, **options)
        if OPTIMIZERS[optimizer].joint:
            shared[same] = made
        if getattr(made, "batch_size", 0) is None:
            made.batch_size = batch_size  # type: ignore[attr-defined]
        if schedule == "plateau":  # each group by what it can change
            schedule_options = {"metric": "kl" if name == SD else "nll", **schedule_options}
        index = len(made.param_groups) - 1
        built.append(
            ParameterGroup(name, made, build_schedule(schedule, epochs=settings.epochs, **schedule_options), index)
        )
    return built


def _sampler_groups(net: BayesianModule, settings: Settings, num_data: int) -> list[ParameterGroup]:
    """One group for the posterior, one for the deterministic weights."""
    for name in ("optimizer_sd", "lr_sd", "lr_ratio", "schedule_sd", "alternate"):
        if getattr(settings, name) is not None:
            raise UsageError(f"'{settings.optimizer}' trains the posterior as a whole: {name} has no meaning for it")
    if settings.kl_decay != 1:
        raise UsageError(f"'{settings.optimizer}' has the prior in every step: kl_decay must be 1")
    if settings.optimizer == "ivon" and settings.learn_prior:
        raise UsageError("'ivon' takes its weight decay from the prior once: learn_prior has no meaning for it")
    made: torch.optim.Optimizer
    temperature = sampling_temperature(net, settings, num_data)
    if settings.optimizer == "ivon":
        options: dict[str, Any] = {} if settings.lr is None else {"lr": settings.lr}
        options |= settings.optimizer_options
        made = PosteriorIVON(net, num_data=num_data, temperature=temperature, **options)
    else:
        made = _langevin(net, settings, num_data / temperature)
    schedule = {"epochs": settings.epochs, **settings.schedule_options}
    built = [ParameterGroup("posterior", made, build_schedule(settings.schedule, **schedule))]
    deterministic = [
        p for p in net.parameters() if p.requires_grad and id(p) not in {id(q) for q in built[0].parameters}
    ]
    if deterministic:
        adam = build_optimizer("adam", [{"params": deterministic}])
        built.append(ParameterGroup("deterministic", adam, build_schedule(settings.schedule, **schedule)))
    return built


def sampling_temperature(net: BayesianModule, settings: Settings, num_data: int) -> float:
    """The one temperature of what a sampler samples from."""
    rule = as_rule(settings.temperature)
    if rule.settled is not rule:
        raise UsageError(f"'{settings.optimizer}' samples at one temperature: give one without a warm-up")
    temperature = rule.bind(net, num_data)(0.0)
    if not temperature > 0:
        raise UsageError(f"'{settings.optimizer}' needs a temperature above 0; at 0 there is nothing to sample")
    return temperature


def _langevin(net: BayesianModule, settings: Settings, effective: float) -> torch.optim.Optimizer:
    if not isinstance(net.posterior, Point):
        raise UsageError(
            f"'{settings.optimizer}' moves one weight vector and collects samples of it: it trains a network with "
            f"posterior 'point', not '{net.posterior.kind}'"
        )
    lr = 2 * DRIFT[settings.optimizer] / effective if settings.lr is None else settings.lr
    options = {"num_data": effective, "seed": derive(settings.seed, "langevin"), **settings.optimizer_options}
    return build_optimizer(settings.optimizer, [{"params": [net.posterior.mean]}], lr=lr, **options)


def active(name: str, epoch: int, settings: Settings) -> bool:
    """Whether group `name` steps in the epoch after `epoch` finished ones."""
    if not settings.alternate:
        return True
    return ((epoch // settings.alternate) % 2 == 1) == (name == SD)


def _plan(name: str, settings: Settings) -> tuple[str, float | None, dict[str, Any], str, dict[str, Any]]:
    mean_lr = OPTIMIZERS[settings.optimizer].lr if settings.lr is None else settings.lr
    if name != SD:
        return settings.optimizer, mean_lr, dict(settings.optimizer_options), *settings.schedule_of(sd=False)
    same = settings.optimizer_sd is None or settings.optimizer_sd == settings.optimizer
    optimizer = settings.optimizer_sd or settings.optimizer
    options = {**(settings.optimizer_options if same else {}), **settings.optimizer_sd_options}
    lr = settings.lr_sd
    if lr is None:
        lr = settings.lr_ratio * mean_lr if settings.lr_ratio is not None else (mean_lr if same else None)
    return optimizer, lr, options, *settings.schedule_of(sd=True)
