"""The keywords of `fit` for editors and type checkers. Made by docs/tables.py from the schema of a run: do not edit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypedDict

from torch.optim import Optimizer

from posterity.objectives.tempering import TemperatureRule


class SettingsKeywords(TypedDict, total=False):
    """What `Settings` takes, all of it optional."""

    epochs: int | None
    batch_size: int
    augmentation: str | None
    optimizer: str | Callable[..., Optimizer] | None
    lr: float | None
    optimizer_options: Mapping[str, Any]
    schedule: str
    schedule_options: Mapping[str, Any]
    warmup: float
    clip: float | None
    optimizer_sd: str | Callable[..., Optimizer] | None
    lr_sd: float | None
    lr_ratio: float | None
    optimizer_sd_options: Mapping[str, Any]
    schedule_sd: str | None
    schedule_sd_options: Mapping[str, Any]
    alternate: int | None
    average: str | None
    average_start: float
    average_every: int | None
    average_restart: bool
    covariance: str
    average_rank: int
    penalty: str | None
    penalty_factor: float
    penalty_factors: Mapping[str, Any]
    penalty_variance: str
    learn_prior: bool
    temperature: float | str | TemperatureRule
    tau: float | None
    temperature_warmup: float
    temperature_warmup_shape: str
    kl_decay: float
    samples: int
    estimator: str
    gradient: str | None
    baseline: str | None
    rank_noise: str
    patience: int | None
    val_samples: int
    seed: int
