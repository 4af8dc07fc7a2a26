"""Ordinary optimisers on the gradient of the negative ELBO.

together     every group steps in every step (the default)
by ratio     lr_sd = lr_ratio * lr_mean
by default   the means are Muon's, those of a small regression AdaBayes-FP's
             the standard deviations are Adam's, whatever trains the means: the gradient of rho is so small that an
             optimiser whose steps are in proportion to it would leave them where they start. Their rate is Adam's
             lr_sd min(1, FEW / M) for M batches in an epoch: the more there are, the less a batch's gradient of rho
             says of the mean of all, and the more its noise shakes them. In a small regression they have to follow a
             temperature that rises late, and lr_sd falls less: by min(1, FEW_SMALL / M)^(1/3)
data-rich    a small regression with more than RICH data for a weight has too little time rather than too few data: the
             default rate of its means is multiplied by sqrt(p / (RICH N)), at most MOST_HASTE
alternating  for `alternate` epochs the standard deviations stand still, for as many the rest does, and so on
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from posterity.core.errors import UsageError
from posterity.core.layout import matrices_of
from posterity.optim import OPTIMIZERS, SCHEDULES, build_optimizer, build_schedule, check_optimizer_options
from posterity.training.groups import DETERMINISTIC, SD, ParameterGroup
from posterity.training.methods.method import OF_SDS, Method, Subject

if TYPE_CHECKING:
    from posterity.training.settings import Settings

OPTIMIZER, SMALL_OPTIMIZER, SD_OPTIMIZER = "muon", "adabayes-fp", "adam"  # where none is named
FEW, FEW_SMALL = 50, 20  # batches
RICH, MOST_HASTE = 10.0, 2.0


@dataclass(frozen=True)
class GroupRecipe:
    """How one group is trained."""

    optimizer: str
    lr: float | None
    options: dict[str, Any]
    schedule: str
    schedule_options: dict[str, Any]

    @classmethod
    def of(cls, group: str, subject: Subject) -> GroupRecipe:
        """What the settings say of the group `group`."""
        settings, of_means = subject.settings, subject.optimizer
        mean_lr = _default_rate(subject) if settings.lr is None else settings.lr
        if group != SD:
            plain = dict(settings.optimizer_options)
            return cls(of_means, mean_lr, plain, *settings.schedule_of(sd=False))
        name = settings.optimizer_sd or (of_means if OPTIMIZERS[of_means].joint else SD_OPTIMIZER)
        same = name == of_means
        options = {**(settings.optimizer_options if same else {}), **settings.optimizer_sd_options}
        recipe, lr = OPTIMIZERS[name], settings.lr_sd
        if settings.lr_ratio is not None:
            if mean_lr is None:
                raise UsageError(f"lr_ratio ({settings.lr_ratio}) needs the rate that it is of: give lr, too")
            lr = settings.lr_ratio * mean_lr
        if lr is None and recipe.lr_sd is not None:
            lr = recipe.lr_sd * _sd_share(subject)
        if lr is None:
            lr = mean_lr if same else recipe.lr
        return cls(name, lr, options, *settings.schedule_of(sd=True))


def _default_rate(subject: Subject) -> float | None:
    """The means' rate where none is given."""
    rate = OPTIMIZERS[subject.optimizer].lr
    if rate is None or not subject.small:
        return rate
    return float(rate * min(MOST_HASTE, max(1.0, subject.num_data / (RICH * subject.net.num_weights)) ** 0.5))


def _sd_share(subject: Subject) -> float:
    """What is left of the sds' rate with so many batches in an epoch."""
    if subject.small:
        return float(min(1.0, FEW_SMALL / subject.num_batches) ** (1 / 3))
    return min(1.0, FEW / subject.num_batches)


def _parts(members: list[Any], subject: Subject) -> list[list[tuple[int, ...]]]:
    """For each parameter the shapes of the weights in it, where they are not its own shape."""
    net = subject.net
    known = {key: [matrix] for key, matrix in matrices_of(net.model).items()}
    known[id(net.posterior.mean)] = net.layout.matrices
    return [known.get(id(p), []) for p in members]


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
            recipe = GroupRecipe.of(name, subject)
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
        described = OPTIMIZERS[recipe.optimizer]
        given = {"num_data": subject.num_data, "batch_size": subject.batch_size}
        needed: dict[str, Any] = {k: given[k] for k in described.needs if k not in recipe.options}
        if described.shaped:
            needed["parts"] = _parts(members, subject)
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
