"""Run: the complete, replayable description of one training. Its key is the hash of all of it."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from pathlib import Path
from typing import Any, Literal

import tomli_w
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from posterity.averaging import COVARIANCES
from posterity.core.errors import CorruptFileError, UsageError, unknown_name
from posterity.estimators import ESTIMATORS
from posterity.models import MODELS
from posterity.objectives import BASELINES, GRADIENTS
from posterity.objectives.tempering import SHAPES, TEMPERATURES, UNTEMPERED, Temperature, as_rule, warm_up
from posterity.optim import OPTIMIZERS, SCHEDULES
from posterity.posteriors import LowRank, Point
from posterity.posteriors.low_rank import DEFAULT_RANK
from posterity.priors import PENALTIES
from posterity.training import Settings

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

# Fields that `fit` takes by the same name; their defaults are those of Settings.
TRAINING = (
    "epochs", "batch_size", "optimizer", "lr", "schedule", "temperature", "kl_decay", "samples",
    "clip", "patience", "val_samples", "seed", "optimizer_sd", "lr_sd", "lr_ratio", "schedule_sd", "alternate",
    "average", "average_start", "average_every", "average_restart", "covariance", "average_rank",
    "optimizer_options", "optimizer_sd_options",
    "learn_prior", "penalty", "penalty_factor",
    "estimator", "gradient", "baseline",
)  # fmt: skip
_DEFAULT = Settings()
Options = dict[str, bool | int | float | str | tuple[float, ...]]


class Run(BaseModel):
    """Everything that decides a run's result."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    dataset: str = Field("digits", description="data set's name, or the path of a .npz or .csv file")
    split: int = Field(0, ge=0, description="number of the standard split (UCI sets)")
    target: str | None = Field(None, description="target column of a .csv file; the last one by default")
    task: Literal["classification", "binary", "regression"] | None = Field(
        None, description="what a file's targets are, where they do not show it: classification, binary or regression"
    )
    model: str = Field("lenet5", description=f"the network: {', '.join(MODELS)}")
    hidden: tuple[int, ...] | None = Field(
        None, description="widths of an mlp's hidden layers, such as 400,400; a mean-field network has one"
    )
    posterior: str = Field("mean_field", description="mean_field or low_rank (Bayesian), or point (frequentist)")
    rank: int = Field(DEFAULT_RANK, ge=2, description="deviations of a low_rank posterior")
    prior: str = Field(
        "gaussian",
        description="the prior's shape: gaussian, laplace, student_t, or mixture (its wide part has prior_scale)",
    )
    prior_scale: float | str = Field("kaiming", description="prior's sd: a number, kaiming, xavier or glorot")
    learn_prior: bool = Field(
        _DEFAULT.learn_prior, description="set the prior's scale by empirical Bayes after each epoch"
    )
    penalty: str | None = Field(
        None,
        description=f"the prior that this penalty stands for, instead of prior and prior_scale: {', '.join(PENALTIES)}",
    )
    penalty_factor: float = Field(
        _DEFAULT.penalty_factor, gt=0, allow_inf_nan=False, description="factor on the penalty; 1 is theory"
    )
    rho: float = Field(-5.0, allow_inf_nan=False, description="initial rho of every weight: sd = softplus(rho)")
    deterministic: tuple[str, ...] = Field(
        (), description="weights that are not Bayesian, by name patterns such as 0.*,*.bias"
    )
    noise: float | str = Field("learnt", description="regression noise: sd, learnt or input")
    epochs: int = Field(_DEFAULT.epochs, ge=1, description="passes over the training data")
    batch_size: int = Field(_DEFAULT.batch_size, ge=1, description="rows in a batch")
    optimizer: str = Field(_DEFAULT.optimizer, description=f"the optimiser: {', '.join(OPTIMIZERS)}")
    lr: float | None = Field(_DEFAULT.lr, gt=0, description="learning rate; the optimiser's own by default")
    schedule: str = Field(_DEFAULT.schedule, description=f"the rate's course: {', '.join(SCHEDULES)}")
    warmup: float = Field(0.0, ge=0, lt=1, description="share of the training in which the rate is ramped up")
    optimizer_sd: str | None = Field(None, description="optimiser of the standard deviations; as the means' by default")
    lr_sd: float | None = Field(None, gt=0, description="learning rate of the standard deviations")
    lr_ratio: float | None = Field(None, gt=0, description="the same as a multiple of lr")
    schedule_sd: str | None = Field(None, description="schedule of the standard deviations' rate")
    alternate: int | None = Field(None, ge=1, description="epochs of means, then of standard deviations, in turn")
    average: str | None = Field(
        None, description="average the iterates: swa (means), hwa (means and spread), or samples (keep them all)"
    )
    average_start: float = Field(
        _DEFAULT.average_start, ge=0, lt=1, description="share of the training before the first snapshot"
    )
    average_every: int | None = Field(None, ge=1, description="steps between snapshots; an epoch's by default")
    average_restart: bool = Field(False, description="go on from the average after each snapshot")
    covariance: str = Field(_DEFAULT.covariance, description=f"of hwa's average: {', '.join(COVARIANCES)}")
    average_rank: int = Field(_DEFAULT.average_rank, ge=2, description="last snapshots in hwa's low_rank covariance")
    optimizer_options: Options = Field({}, description="the optimiser's own settings, such as momentum=0.8")
    optimizer_sd_options: Options = Field({}, description="the same for the standard deviations")
    schedule_options: Options = Field(
        {}, description="the schedule's own settings, such as patience=5,drop=0.3 or milestones=0.5:0.75,by=epoch"
    )
    schedule_sd_options: Options = Field({}, description="the same for the standard deviations")
    temperature: float | str = Field(UNTEMPERED, description=f"factor on the KL: a number, {' or '.join(TEMPERATURES)}")
    tau: float = Field(
        1.0, ge=0, description="factor of a rule: tau * data / weights (per-weight), tau * data / neurons (per-neuron)"
    )
    temperature_warmup: float = Field(0.0, ge=0, description="epochs in which the temperature is ramped up from 0")
    temperature_warmup_shape: str = Field("linear", description=f"shape of that ramp: {' or '.join(SHAPES)}")
    kl_decay: float = Field(_DEFAULT.kl_decay, ge=0, description="lam, the KL's share by batch")
    samples: int = Field(_DEFAULT.samples, ge=1, description="weight samples in a step")
    estimator: str = Field(_DEFAULT.estimator, description=f"how a pass is made random: {', '.join(ESTIMATORS)}")
    gradient: str | None = Field(
        None, description=f"how the KL enters the gradient: {', '.join(GRADIENTS)}; by default the first there is"
    )
    baseline: str | None = Field(None, description=f"what reduces the score's variance: {', '.join(BASELINES)}")
    clip: float | None = Field(_DEFAULT.clip, gt=0, description="largest norm of the gradient")
    patience: int | None = Field(_DEFAULT.patience, ge=1, description="epochs without progress before stopping")
    val_fraction: float = Field(0.1, ge=0, lt=1, description="share of the training data held out")
    val_samples: int = Field(_DEFAULT.val_samples, ge=1, description="weight samples in validation")
    seed: int = Field(_DEFAULT.seed, ge=0, lt=2**63, description="seed of all randomness")

    @property
    def key(self) -> str:
        """A hash of the whole description."""
        return hashlib.sha256(json.dumps(self.model_dump(mode="json"), sort_keys=True).encode()).hexdigest()[:16]

    def settings(self) -> dict[str, Any]:
        """What `fit` is told."""
        options = {"warmup": self.warmup} if self.warmup else {}
        return {
            **{name: getattr(self, name) for name in TRAINING},
            "schedule_options": {**options, **self.schedule_options},
            "schedule_sd_options": {**options, **self.schedule_sd_options},
            "temperature": self._temperature(),
        }

    def refuse_idle(self, task: str) -> None:
        """Refuse what was given and has no effect on a network for this `task` (training.idle: the settings of fit)."""
        for name, used, why in (
            ("rank", self.posterior == LowRank.kind, f"posterior 'low_rank', not with '{self.posterior}'"),
            ("rho", self.posterior != Point.kind, "a posterior that has standard deviations, not with 'point'"),
            ("noise", task == "regression", f"regression, not with {task}"),
            ("temperature_warmup_shape", self.temperature_warmup > 0, "a warm-up: give temperature_warmup, too"),
        ):
            if not used and not self.is_default(name):
                raise UsageError(f"{name} ({getattr(self, name)!r}) goes with {why}")

    def is_default(self, name: str) -> bool:
        """Whether a field has its default value."""
        return bool(getattr(self, name) == type(self).model_fields[name].default)

    def _temperature(self) -> Temperature:
        if self.temperature_warmup_shape not in SHAPES:
            raise unknown_name("shape of a warm-up", self.temperature_warmup_shape, SHAPES)
        if not isinstance(self.temperature, str) and self.tau != 1:
            raise UsageError(
                f"tau ({self.tau}) goes with temperature {' or '.join(TEMPERATURES)}, not with {self.temperature}"
            )
        rule = self.temperature if not isinstance(self.temperature, str) else as_rule(self.temperature, tau=self.tau)
        if not self.temperature_warmup:
            return rule
        return warm_up(rule, self.temperature_warmup, self.temperature_warmup_shape)

    def write(self, path: Path) -> None:
        """As TOML, atomically (half of it would be another run); what is None is left out."""
        partial = path.with_suffix(".partial")
        partial.write_text(tomli_w.dumps(self.model_dump(mode="json", exclude_none=True)), encoding="utf-8")
        os.replace(partial, path)

    @classmethod
    def of(cls, **values: Any) -> Run:
        """A run from values, with errors for people."""
        try:
            return cls(**values)
        except ValidationError as error:
            raise UsageError(_in_one_line(error)) from error

    @classmethod
    def read(cls, path: Path) -> Run:
        """The inverse of `write`."""
        try:
            return cls(**tomllib.loads(path.read_text(encoding="utf-8")))
        except FileNotFoundError as error:
            raise UsageError(f"there is no run in {path.parent} (no {path.name})") from error
        except ValidationError as error:
            raise CorruptFileError(f"{path} is not a run's configuration: {_in_one_line(error)}") from error
        except (OSError, ValueError, TypeError) as error:  # TOML's errors are ValueErrors
            raise CorruptFileError(f"{path} is not a run's configuration: {error}") from error


def _in_one_line(error: ValidationError) -> str:
    return "; ".join(
        f"{'.'.join(map(str, e['loc']))}: {e['msg']}{_meaning(e['loc'])} (given: {e['input']!r})"
        for e in error.errors()
    )


def _meaning(place: tuple[int | str, ...]) -> str:
    """What a share is a share of: others may take it for a number of epochs or of rows."""
    field = Run.model_fields.get(str(place[0])) if place else None
    described = field.description if field else None
    return f", a {described}" if described and described.startswith("share of") else ""
