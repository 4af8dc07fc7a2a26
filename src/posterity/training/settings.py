"""What one training is told: a frozen record, each default written here and nowhere else."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from posterity.averaging import AVERAGES, HWA
from posterity.averaging.hwa import DEFAULT_RANK as DEFAULT_AVERAGE_RANK
from posterity.core.errors import UsageError, unknown_name
from posterity.objectives import check_estimate, kl_weights
from posterity.objectives.tempering import UNTEMPERED, Temperature, as_rule, describe_temperature
from posterity.optim import OPTIMIZERS, build_schedule, try_options
from posterity.priors.penalties import penalty_named

LANGEVIN = ("sgld", "psgld")


@dataclass(frozen=True)
class Settings:
    """Settings of `fit`.

    lr            None takes the optimiser's default rate
    temperature   factor on the KL: a number, or a rule of objectives.tempering, such as per_weight(tau=1.0)
    kl_decay      lam: how the epoch's KL is shared among its batches (objectives.weighting); 0 leaves it out
    samples       weight samples in each step
    clip          largest norm of the gradient; None does not clip
    patience      epochs without a better validation nll before stopping; the best weights are then restored
    val_samples   weight samples in each validation
    penalty       the prior is the one this penalty stands for (priors.penalised): l2, l1, group_lasso_rows, ...
    penalty_factor  times what theory gives the penalty
    learn_prior   after each epoch the prior's scale, for each weight tensor, is set to what minimises the KL
    estimator     how a pass is made random: sample, local or flipout (posterity.estimators)
    gradient      how the KL enters the gradient: analytic, total, path or score (objectives.estimate)
    baseline      of the score: moving or leave_one_out

    The standard deviations are trained like the means unless one of these is given (training.groups):
    optimizer_sd, lr_sd (or lr_ratio, times the means' rate), schedule_sd, and their options, which are added to the
    means' where the optimiser or the schedule is the means'
    alternate     epochs for which the means are trained, then the standard deviations, and so on

    average            "swa" or "hwa": average the iterates along the training (averaging); "samples": keep them all,
                       which Langevin dynamics (sgld, psgld) does by default
    average_start      share of the training after which snapshots are taken
    average_every      steps between snapshots (those whose number it divides); None takes one an epoch
    average_restart    go on from the average after each snapshot, not from the iterate (source 003's algorithm 2)
    covariance         that of hwa's average: total, snapshot, posterior or low_rank
    average_rank       the last snapshots that low_rank keeps
    """

    epochs: int = 20
    batch_size: int = 100
    optimizer: str = "adam"
    lr: float | None = None
    optimizer_options: Mapping[str, Any] = field(default_factory=dict)
    schedule: str = "cosine"
    schedule_options: Mapping[str, Any] = field(default_factory=dict)
    temperature: Temperature = UNTEMPERED
    kl_decay: float = 1.0
    samples: int = 1
    clip: float | None = None
    patience: int | None = None
    val_samples: int = 8
    seed: int = 0
    optimizer_sd: str | None = None
    lr_sd: float | None = None
    lr_ratio: float | None = None
    optimizer_sd_options: Mapping[str, Any] = field(default_factory=dict)
    schedule_sd: str | None = None
    schedule_sd_options: Mapping[str, Any] = field(default_factory=dict)
    alternate: int | None = None
    average: str | None = None
    average_start: float = 0.5
    average_every: int | None = None
    average_restart: bool = False
    covariance: str = "total"
    average_rank: int = DEFAULT_AVERAGE_RANK
    penalty: str | None = None
    penalty_factor: float = 1.0
    learn_prior: bool = False
    estimator: str = "sample"
    gradient: str | None = None
    baseline: str | None = None

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size", "samples", "val_samples"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name} must be at least 1, not {getattr(self, name)}")
        for name in ("clip", "patience", "lr", "lr_sd", "lr_ratio", "alternate", "average_every"):
            if getattr(self, name) is not None and not getattr(self, name) > 0:
                raise UsageError(f"{name} must be positive, or None, not {getattr(self, name)}")
        if self.penalty is not None:
            penalty_named(self.penalty)
        if not (math.isfinite(self.penalty_factor) and self.penalty_factor > 0):
            raise UsageError(f"penalty_factor must be a positive number, not {self.penalty_factor}; 1 is theory")
        as_rule(self.temperature)
        # Names and rates, too, are refused here: before a run's directory is touched.
        if self.lr_sd is not None and self.lr_ratio is not None:
            raise UsageError(f"give lr_sd ({self.lr_sd}) or lr_ratio ({self.lr_ratio}), not both")
        for optimizer in (self.optimizer, self.optimizer_sd):
            if optimizer is not None and optimizer not in OPTIMIZERS:
                raise unknown_name("optimizer", optimizer, OPTIMIZERS)
        try_options(self.optimizer, self.optimizer_options)
        try_options(self.optimizer_sd or self.optimizer, self.optimizer_sd_options)
        for name, options in (self.schedule_of(sd=False), self.schedule_of(sd=True)):
            build_schedule(name, epochs=self.epochs, **options)
        kl_weights(1, self.kl_decay)
        if self.average is not None and self.average not in AVERAGES:
            raise unknown_name("average", self.average, AVERAGES)
        if not 0 <= self.average_start < 1:
            raise UsageError(
                f"average_start is a share of the training, at least 0 and below 1, not {self.average_start}"
            )
        HWA(covariance=self.covariance, rank=self.average_rank)
        check_estimate(self.estimator, self.gradient, self.baseline, self.samples)

    @property
    def averaging(self) -> str | None:
        """What is made of the iterates beside the last: Langevin dynamics is run for its samples."""
        return self.average or ("samples" if self.optimizer in LANGEVIN else None)

    def schedule_of(self, *, sd: bool) -> tuple[str, dict[str, Any]]:
        """Name and options of the means' schedule, or of the standard deviations'."""
        if sd and self.schedule_sd is not None:
            return self.schedule_sd, dict(self.schedule_sd_options)
        return self.schedule, {**self.schedule_options, **(self.schedule_sd_options if sd else {})}

    @classmethod
    def of(cls, **settings: Any) -> Settings:
        """Settings from keywords, with a helpful error for an unknown one."""
        known = [f.name for f in dataclasses.fields(cls)]
        for name in settings:
            if name not in known:
                raise unknown_name("setting of fit", name, known)
        return cls(**settings)

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for a checkpoint."""
        return {**dataclasses.asdict(self), "temperature": describe_temperature(self.temperature)}
