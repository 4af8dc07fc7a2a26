"""Ordinary optimisers on the gradient of the negative ELBO.

together     every group steps in every step (the default)
by ratio     lr_sd = lr_ratio * lr_mean
by default   the standard deviations are Adam's, whatever trains the means: the gradient of rho is so small that an
             optimiser whose steps are in proportion to it would leave them where they start. Their rate is Adam's
             lr_sd min(1, FEW / M)^(1/3) for M batches in an epoch: the more there are, the less a batch's gradient of
             rho says of the mean of all, and the more its noise shakes them
alternating  for `alternate` epochs the standard deviations stand still, for as many the rest does, and so on
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from posterity.core.errors import UsageError
from posterity.optim import OPTIMIZERS, SCHEDULES, build_optimizer, build_schedule, check_optimizer_options
from posterity.training.groups import DETERMINISTIC, SD, ParameterGroup
from posterity.training.methods.method import OF_SDS, Method, Subject

if TYPE_CHECKING:
    from posterity.training.settings import Settings

SD_OPTIMIZER = "adam"
FEW = 20  # batches


@dataclass(frozen=True)
class GroupRecipe:
    """How one group is trained."""

    optimizer: str
    lr: float | None
    options: dict[str, Any]
    schedule: str
    schedule_options: dict[str, Any]

    @classmethod
    def of(cls, group: str, settings: Settings, num_batches: int) -> GroupRecipe:
        """What the settings say of the group `group`."""
        mean_lr = OPTIMIZERS[settings.optimizer].lr if settings.lr is None else settings.lr
        if group != SD:
            plain = dict(settings.optimizer_options)
            return cls(settings.optimizer, mean_lr, plain, *settings.schedule_of(sd=False))
        name = settings.optimizer_sd or (settings.optimizer if OPTIMIZERS[settings.optimizer].joint else SD_OPTIMIZER)
        same = name == settings.optimizer
        options = {**(settings.optimizer_options if same else {}), **settings.optimizer_sd_options}
        recipe, lr = OPTIMIZERS[name], settings.lr_sd
        if settings.lr_ratio is not None:
            if mean_lr is None:
                raise UsageError(f"lr_ratio ({settings.lr_ratio}) needs the rate that it is of: give lr, too")
            lr = settings.lr_ratio * mean_lr
        if lr is None and recipe.lr_sd is not None:
            lr = recipe.lr_sd * min(1.0, FEW / num_batches) ** (1 / 3)
        if lr is None:
            lr = mean_lr if same else recipe.lr
        return cls(name, lr, options, *settings.schedule_of(sd=True))


class Gradient(Method):
    """The optimiser of that name, and perhaps another for the standard deviations."""

    @property
    def default_lr(self) -> float | None:
        """The optimiser's."""
        return OPTIMIZERS[self.name].lr

    def refuse(self, subject: Subject) -> None:
        """Settings of standard deviations where there are none, or twice."""
        settings, posterior = subject.settings, subject.net.posterior
        if settings.lr_sd is not None and settings.lr_ratio is not None:
            raise UsageError(f"give lr_sd ({settings.lr_sd}) or lr_ratio ({settings.lr_ratio}), not both")
        if posterior.random:
            return
        for name in OF_SDS:
            if not settings.is_default(name):
                raise UsageError(
                    f"{name} ({getattr(settings, name)!r}) is for standard deviations, which a {posterior.kind} "
                    "posterior does not have: leave it out"
                )

    def groups(self, subject: Subject) -> list[ParameterGroup]:
        """Means, standard deviations and deterministic weights; a self-tuning optimiser is shared."""
        settings = subject.settings
        parameters: dict[str, list[Any]] = {k: list(v) for k, v in subject.net.posterior.groups().items()}
        parameters[DETERMINISTIC] = list(subject.deterministic)
        built: list[ParameterGroup] = []
        shared: dict[tuple[str, str], torch.optim.Optimizer] = {}
        for name, members in parameters.items():
            if not members:
                continue
            recipe = GroupRecipe.of(name, settings, subject.num_batches)
            same = (recipe.optimizer, repr(sorted(recipe.options.items())))
            if same in shared:
                made = shared[same]
                made.add_param_group({"params": members, "lr": recipe.lr})
            else:
                made = self._optimizer(recipe, members, subject)
            if OPTIMIZERS[recipe.optimizer].joint:
                shared[same] = made
            options = recipe.schedule_options
            if SCHEDULES[recipe.schedule].watches:  # each group what it can change
                options = {"metric": "kl" if name == SD else "nll", **options}
            schedule = build_schedule(recipe.schedule, epochs=settings.length, **options)
            built.append(ParameterGroup(name, made, schedule, len(made.param_groups) - 1))
        return built

    def _optimizer(self, recipe: GroupRecipe, members: list[Any], subject: Subject) -> torch.optim.Optimizer:
        if recipe.options:
            check_optimizer_options(recipe.optimizer, recipe.options)
        given = {"num_data": subject.num_data, "batch_size": subject.batch_size}
        needed = {k: given[k] for k in OPTIMIZERS[recipe.optimizer].needs if k not in recipe.options}
        made = build_optimizer(recipe.optimizer, [{"params": members}], lr=recipe.lr, **needed, **recipe.options)
        if getattr(made, "batch_size", 0) is None:
            made.batch_size = subject.batch_size  # type: ignore[attr-defined]
        return made

    def moving(self, groups: Sequence[ParameterGroup], epoch: int, settings: Settings) -> Sequence[ParameterGroup]:
        """All, or in turn the standard deviations and the rest."""
        if not settings.alternate:
            return groups
        turn = (epoch // settings.alternate) % 2 == 1
        return [group for group in groups if (group.name == SD) == turn]
