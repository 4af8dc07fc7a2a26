"""What one training is told: a frozen record, each default written here and nowhere else."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from posterity.core.errors import UsageError, unknown_name
from posterity.objectives import check_estimate, kl_weights
from posterity.optim import OPTIMIZERS, build_schedule


@dataclass(frozen=True)
class Settings:
    """Settings of `fit`.

    lr            None takes the optimiser's default rate
    temperature   factor on the KL
    kl_decay      lam: how the epoch's KL is shared among its batches (objectives.weighting); 0 leaves it out
    samples       weight samples in each step
    clip          largest norm of the gradient; None does not clip
    patience      epochs without a better validation nll before stopping; the best weights are then restored
    val_samples   weight samples in each validation
    estimator     how a pass is made random: sample, local or flipout (posterity.estimators)
    gradient      how the KL enters the gradient: analytic, total, path or score (objectives.estimate)
    baseline      of the score: moving or leave_one_out

    The standard deviations are trained like the means unless one of these is given (training.groups):
    optimizer_sd, lr_sd (or lr_ratio, times the means' rate), schedule_sd, and their options
    alternate     epochs for which the means are trained, then the standard deviations, and so on
    """

    epochs: int = 20
    batch_size: int = 100
    optimizer: str = "adam"
    lr: float | None = None
    optimizer_options: Mapping[str, Any] = field(default_factory=dict)
    schedule: str = "cosine"
    schedule_options: Mapping[str, Any] = field(default_factory=dict)
    temperature: float = 1.0
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
    estimator: str = "sample"
    gradient: str | None = None
    baseline: str | None = None

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size", "samples", "val_samples"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name} must be at least 1, not {getattr(self, name)}")
        for name in ("clip", "patience", "lr", "lr_sd", "lr_ratio", "alternate"):
            if getattr(self, name) is not None and not getattr(self, name) > 0:
                raise UsageError(f"{name} must be positive, or None, not {getattr(self, name)}")
        if not (math.isfinite(self.temperature) and self.temperature >= 0):
            raise UsageError(f"the temperature must be a number of at least 0, not {self.temperature}")
        # Names and rates, too, are refused here: before a run's directory is touched.
        if self.lr_sd is not None and self.lr_ratio is not None:
            raise UsageError(f"give lr_sd ({self.lr_sd}) or lr_ratio ({self.lr_ratio}), not both")
        for optimizer in (self.optimizer, self.optimizer_sd):
            if optimizer is not None and optimizer not in OPTIMIZERS:
                raise unknown_name("optimizer", optimizer, OPTIMIZERS)
        build_schedule(self.schedule, **self.schedule_options)
        if self.schedule_sd is not None:
            build_schedule(self.schedule_sd, **self.schedule_sd_options)
        kl_weights(1, self.kl_decay)
        check_estimate(self.estimator, self.gradient, self.baseline, self.samples)

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
        return dataclasses.asdict(self)
