"""The settings of a training, each declared once: type, bounds, default, meaning, and panel of the help.

The keywords of `fit`, the flags of the command line, the config file and the tables of the documentation are made from
this schema; `experiments.Run` extends it by what describes data, network, posterior and prior. A field by itself is
checked here; what does not go together, or not with a network, is refused by `training.plan`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from torch.optim import Optimizer
from typing_extensions import Self

from posterity.averaging import AVERAGES, COVARIANCES
from posterity.averaging.hwa import DEFAULT_RANK as DEFAULT_AVERAGE_RANK
from posterity.core.errors import UsageError
from posterity.data.augmentation import AUGMENTATIONS
from posterity.estimators import ESTIMATORS, SAMPLE
from posterity.objectives import BASELINES, GRADIENTS
from posterity.objectives.tempering import (
    AUTO_MOST,
    AUTO_TAU,
    SHAPES,
    TEMPERATURES,
    Auto,
    TemperatureRule,
    temperature_rule,
)
from posterity.optim import OPTIMIZERS, SCHEDULES, SD_RATE, spelled_out
from posterity.priors import PENALTIES, VARIANCES
from posterity.training.fields import (
    AVERAGING,
    GRADIENT,
    OPTIMISER,
    PANELS,
    PRIOR,
    SDS,
    STOPPING,
    TEMPERATURE,
    explain,
    number_or,
    one_of,
    setting,
)
from posterity.training.methods import METHODS
from posterity.training.methods.gradient import OPTIMIZER, SD_OPTIMIZER, SMALL_OPTIMIZER
from posterity.training.ranks import OWN, RANK_NOISES, SHARED

LEAST_EPOCHS, LEAST_STEPS = 20, 6000  # of a training whose length was not given
SMALL_EPOCHS, SMALL_STEPS = 100, 12_000  # of a regression's that warms (training.warming)

Options = dict[str, bool | int | float | str | tuple[float, ...]]


class Settings(BaseModel):
    """How a network is trained: the keywords of `fit`."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
    elsewhere: ClassVar[Mapping[str, str]] = {  # what others have as a setting, and what to say then
        "device": "A network trains where its weights are: call net.to(device) before.",
        "loss": "The likelihood is the loss: give likelihood.",
        "normalize": "It is fit's standardise=True.",
        "standardize": "It is fit's standardise=True.",
        "task": "Data say what they are: Dataset.from_arrays(x, y, task=...).",
        "weight_decay": "The prior decays the weights: bayesian(model, prior=...), or a penalty.",
    }

    epochs: int | None = setting(
        None,
        OPTIMISER,
        f"passes over the training data; by default {LEAST_EPOCHS}, or as many as make {LEAST_STEPS} steps; "
        f"of a regression that warms (docs/tempering.md) {SMALL_EPOCHS}, or {SMALL_STEPS} steps",
        ge=1,
    )
    batch_size: int = setting(100, OPTIMISER, "rows in a batch", ge=1)
    augmentation: Annotated[str | None, one_of("augmentation", AUGMENTATIONS)] = setting(
        None, OPTIMISER, f"random changes of the images in each batch: {', '.join(AUGMENTATIONS)}"
    )
    optimizer: Annotated[str | None, one_of("optimizer", METHODS)] = setting(
        None,
        OPTIMISER,
        f"the optimiser: {', '.join(METHODS.own)}; by default {OPTIMIZER}, of a small regression {SMALL_OPTIMIZER}",
        accepts="Callable[..., Optimizer]",
    )
    lr: float | None = setting(None, OPTIMISER, "learning rate; the optimiser's own by default", gt=0)
    optimizer_options: Options = setting({}, OPTIMISER, "the optimiser's own settings, such as momentum=0.8")
    schedule: Annotated[str, one_of("schedule", SCHEDULES)] = setting(
        "cosine", OPTIMISER, f"the rate's course: {', '.join(SCHEDULES)}"
    )
    schedule_options: Options = setting(
        {}, OPTIMISER, "the schedule's own settings, such as patience=5,drop=0.3 or milestones=0.5:0.75,by=epoch"
    )
    warmup: float = setting(0.0, OPTIMISER, "share of the training in which the rate is ramped up", ge=0, lt=1)
    clip: float | None = setting(None, OPTIMISER, "largest norm of the gradient", gt=0)

    optimizer_sd: Annotated[str | None, one_of("optimizer of the standard deviations", OPTIMIZERS)] = setting(
        None,
        SDS,
        f"optimiser of the standard deviations; {SD_OPTIMIZER} by default, or the one that tunes both",
        accepts="Callable[..., Optimizer]",
    )
    lr_sd: float | None = setting(
        None,
        SDS,
        f"learning rate of the standard deviations; by default {SD_RATE:g}, less where batches are many",
        gt=0,
    )
    lr_ratio: float | None = setting(None, SDS, "the same as a multiple of lr", gt=0)
    optimizer_sd_options: Options = setting(
        {}, SDS, "their optimiser's own settings, added to the means' if it is theirs"
    )
    schedule_sd: Annotated[str | None, one_of("schedule", SCHEDULES)] = setting(
        None, SDS, "schedule of the standard deviations' rate; as the means' by default"
    )
    schedule_sd_options: Options = setting(
        {}, SDS, "their schedule's own settings, added to the means' if it is theirs"
    )
    alternate: int | None = setting(None, SDS, "epochs of means, then of standard deviations, in turn", ge=1)

    average: Annotated[str | None, one_of("average", AVERAGES)] = setting(
        None,
        AVERAGING,
        "average the iterates: swa (means), hwa (means and spread), or samples (keep them all, as samplers do)",
    )
    average_start: float = setting(0.5, AVERAGING, "share of the training before the first snapshot", ge=0, lt=1)
    average_every: int | None = setting(None, AVERAGING, "steps between snapshots; an epoch's by default", ge=1)
    average_restart: bool = setting(False, AVERAGING, "go on from the average after each snapshot")
    covariance: Annotated[str, one_of("covariance", COVARIANCES)] = setting(
        "total", AVERAGING, f"of hwa's average: {', '.join(COVARIANCES)}"
    )
    average_rank: int = setting(DEFAULT_AVERAGE_RANK, AVERAGING, "last snapshots in hwa's low_rank covariance", ge=2)

    penalty: Annotated[str | None, one_of("penalty", PENALTIES)] = setting(
        None, PRIOR, f"the prior that this penalty stands for, instead of another: {', '.join(PENALTIES)}"
    )
    penalty_factor: float = setting(1.0, PRIOR, "factor on the penalty; 1 is theory", gt=0)
    penalty_factors: dict[str, Annotated[float, Field(gt=0)]] = setting(
        {},
        PRIOR,
        "free factors of some weights instead of theory's, by name patterns, such as 0.*=1e-4,*=1e-3",
        ordered=True,
    )
    penalty_variance: Annotated[str, one_of("variance", VARIANCES)] = setting(
        "glorot", PRIOR, f"the initial variance that theory's factors follow: {', '.join(VARIANCES)}"
    )
    learn_prior: bool = setting(False, PRIOR, "set the prior's scale by empirical Bayes after each epoch")

    temperature: Annotated[float | str, number_or("temperature", TEMPERATURES)] = setting(
        Auto.kind,
        TEMPERATURE,
        f"factor on the KL: a number (1 is Bayes' rule), {' or '.join(TEMPERATURES)}",
        accepts="TemperatureRule",
    )
    tau: float | None = setting(
        None,
        TEMPERATURE,
        f"factor of a rule: around min({AUTO_MOST:g}, tau * data / weights) (auto; {AUTO_TAU:g} by default), "
        "tau * data / weights (per-weight; 1), tau * data / neurons (per-neuron; 1)",
        ge=0,
    )
    temperature_warmup: float = setting(0.0, TEMPERATURE, "epochs in which the temperature is ramped up from 0", ge=0)
    temperature_warmup_shape: Annotated[str, one_of("shape of a warm-up", SHAPES)] = setting(
        "linear", TEMPERATURE, f"shape of that ramp: {' or '.join(SHAPES)}"
    )
    kl_decay: float = setting(
        1.0, TEMPERATURE, "lam: how an epoch's KL is shared by its batches; 0 leaves it out", ge=0
    )

    samples: int = setting(1, GRADIENT, "weight samples in a step", ge=1)
    estimator: Annotated[str, one_of("estimator", ESTIMATORS)] = setting(
        SAMPLE, GRADIENT, f"how a pass is made random: {', '.join(ESTIMATORS)}"
    )
    gradient: Annotated[str | None, one_of("gradient", GRADIENTS)] = setting(
        None, GRADIENT, f"how the KL enters the gradient: {', '.join(GRADIENTS)}; by default the first there is"
    )
    baseline: Annotated[str | None, one_of("baseline", BASELINES)] = setting(
        None, GRADIENT, f"what reduces the score's variance: {', '.join(BASELINES)}"
    )

    rank_noise: Annotated[str, one_of("rank_noise", RANK_NOISES)] = setting(
        SHARED, GRADIENT, f"noise of several processes (torchrun): {SHARED}, as in one, or each its {OWN}"
    )

    patience: int | None = setting(
        None,
        STOPPING,
        "epochs without a better validation nll before stopping; the best weights are then restored",
        ge=1,
    )
    val_samples: int = setting(8, STOPPING, "weight samples in each validation", ge=1)
    seed: int = setting(0, STOPPING, "seed of all randomness", ge=0, lt=2**63)

    @model_validator(mode="before")
    @classmethod
    def _plain(cls, values: Any) -> Any:
        """A temperature rule and an optimiser's class stand for plain values; true and false are no numbers."""
        for name, value in values.items():
            field = cls.model_fields.get(name)
            if isinstance(value, bool) and field is not None and "bool" not in str(field.annotation):
                raise UsageError(f"{name} takes no truth value, but was given {value}")
        for name, rate in (("optimizer", "lr"), ("optimizer_sd", "lr_sd")):
            values = _with_optimizer(values, name, rate)
        if not isinstance(values.get("temperature"), TemperatureRule):
            return values
        plain = values["temperature"].as_settings()
        twice = [name for name in plain if name != "temperature" and name in values]
        if twice:
            raise UsageError(f"the temperature rule that was given says {', '.join(twice)} itself: leave it out")
        return {**values, **plain}

    @property
    def temperature_rule(self) -> TemperatureRule:
        """What the four settings of the temperature say together."""
        shape = self.temperature_warmup_shape
        return temperature_rule(self.temperature, tau=self.tau, warmup=self.temperature_warmup, shape=shape)

    def num_epochs(self, num_data: int, num_batches: int | None = None, *, small: bool = False) -> int:
        """The epochs that were given, or those of a training of `num_data` rows, in `num_batches` if not our own.

        A `small` regression, which warms (training.warming), has more of them.
        """
        if self.epochs is not None:
            return self.epochs
        epochs, steps = (SMALL_EPOCHS, SMALL_STEPS) if small else (LEAST_EPOCHS, LEAST_STEPS)
        return max(epochs, math.ceil(steps / (num_batches or math.ceil(num_data / self.batch_size))))

    @property
    def length(self) -> int:
        """The epochs of a training that is planned."""
        assert self.epochs is not None
        return self.epochs

    def schedule_of(self, *, sd: bool) -> tuple[str, dict[str, Any]]:
        """Name and options of the means' schedule, or of the standard deviations'."""
        ramp = {"warmup": self.warmup} if self.warmup else {}
        if sd and self.schedule_sd is not None:
            return self.schedule_sd, {**ramp, **self.schedule_sd_options}
        return self.schedule, {**ramp, **self.schedule_options, **(self.schedule_sd_options if sd else {})}

    def is_default(self, name: str) -> bool:
        """Whether a field has its default value."""
        return bool(getattr(self, name) == type(self).model_fields[name].default)

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for a file."""
        return self.model_dump(mode="json")

    @classmethod
    def of(cls, **values: Any) -> Self:
        """From values, with errors for people."""
        try:
            return cls(**values)
        except ValidationError as error:
            known = [e.get("ctx", {}).get("error") for e in error.errors()]
            if len(known) == 1 and isinstance(known[0], UsageError):
                raise known[0] from error
            raise UsageError(explain(error, cls)) from error

    def training_values(self) -> dict[str, Any]:
        """The settings of the training alone, as plain values, without what a schema that extends this one adds."""
        return self.model_dump(mode="json", include=set(Settings.model_fields))

    @classmethod
    def by_panel(cls) -> dict[str, list[str]]:
        """The names of the fields by panel, in the panels' order."""
        fields: dict[str, list[str]] = {panel: [] for panel in PANELS}
        for name, field in cls.model_fields.items():
            assert isinstance(field.json_schema_extra, dict)
            fields[str(field.json_schema_extra["panel"])].append(name)
        return {panel: names for panel, names in fields.items() if names}


def _with_optimizer(values: dict[str, Any], name: str, rate: str) -> dict[str, Any]:
    """A class, or a function of parameter groups, as its name and its options."""
    given = values.get(name)
    if isinstance(given, Optimizer):
        raise UsageError(f"{name} is built for the groups of a network: give its class, {type(given).__name__}, itself")
    if not callable(given):
        return values
    known, keywords = spelled_out(given)
    own = {**({rate: keywords.pop("lr")} if "lr" in keywords else {})}
    options = dict(values.get(f"{name}_options", {}))
    twice = [key for key in (*own, *keywords) if key in values or key in options]
    if twice:
        raise UsageError(f"{name} says {', '.join(twice)} itself: leave it out")
    return {**values, name: known, **own, f"{name}_options": {**keywords, **options}}
