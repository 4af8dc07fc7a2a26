"""Run: the complete, replayable description of one training, from data to seed.

It extends the settings of a training by what describes data, network, posterior and prior. Its key is a hash of what
differs from the defaults, with the version of the schema: an option that is added leaves the keys of earlier runs as
they are. When a default changes, SCHEMA must grow: the same flags are then another run. When a rule that has a name
changes, its number in the key grows, and only runs that go by it are other runs.
"""

from __future__ import annotations

import hashlib
import json
import math
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import tomli_w
from pydantic import AfterValidator, ValidationError

from posterity.core.errors import CorruptFileError, UsageError, unknown_name
from posterity.data import DATASETS, resolve_dataset
from posterity.data.columns import MAX_ONE_HOT
from posterity.initialisation import DEFAULT_RELATIVE_SD, INIT, INITS, MODULE
from posterity.initialisation import PRIOR as OF_PRIOR
from posterity.models import IMAGES, MODELS, TABLES
from posterity.objectives.tempering import Auto
from posterity.posteriors import POSTERIORS
from posterity.priors import DEFAULT_SCALE, SCALES, SHAPES
from posterity.storage import write_text
from posterity.training.fields import (
    DATA,
    NETWORK,
    POSTERIOR,
    PRIOR,
    STOPPING,
    explain,
    number_or,
    one_of,
    setting,
)
from posterity.training.settings import Options, Settings
from posterity.training.stored import NOTHING, PYTHON

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

SCHEMA = 3  # grows when a default changes (tests/experiments/defaults.json holds them together)
FORMER_OPTIMIZER = "adabayes-fp"  # the default before it went by rule
STARTED = [name for name in POSTERIORS.own if POSTERIORS[name].trainable]


def _model(name: str | None) -> str | None:
    """A network that is known, or a program's own."""
    if name is not None and name != PYTHON and name not in MODELS:
        raise MODELS.unknown(name)
    return name


def _started(name: str) -> str:
    """A posterior that a training can start from."""
    if name not in POSTERIORS or not POSTERIORS[name].trainable:
        raise unknown_name("posterior", name, {*POSTERIORS.available()} - {*POSTERIORS.own} | {*STARTED})
    return name


class Run(Settings):
    """Everything that decides a run's result."""

    elsewhere: ClassVar[Mapping[str, str]] = {}

    dataset: Annotated[str, AfterValidator(resolve_dataset)] = setting(
        "digits", DATA, "data set's name, or the path of a .npz, .csv or .csv.gz file"
    )
    split: int = setting(0, DATA, "number of the standard split (UCI sets)", ge=0)
    target: str | None = setting(None, DATA, "target column of a .csv file; the last one by default")
    task: Literal["classification", "binary", "regression"] | None = setting(
        None, DATA, "what a file's targets are, where they do not show it: classification, binary or regression"
    )
    max_one_hot: int = setting(
        MAX_ONE_HOT, DATA, "values of a table's category that become an input each; one with more is embedded", ge=0
    )
    embedded: tuple[str, ...] = setting((), DATA, "columns of a table that are categories and embedded in any case")
    train_rows: int | None = setting(None, DATA, "rows to train on, drawn from all by the seed; all by default", ge=2)
    test_rows: int | None = setting(
        None, DATA, "rows to evaluate on, the same for every seed, and of other data as many; all by default", ge=2
    )
    val_fraction: float = setting(0.0, STOPPING, "share of the training data held out", ge=0, lt=1)

    model: Annotated[str | None, AfterValidator(_model)] = setting(
        None, NETWORK, f"the network: {', '.join(MODELS.own)}; by default {IMAGES} for images, {TABLES} for tables"
    )
    hidden: tuple[int, ...] | None = setting(
        None, NETWORK, "widths of an mlp's hidden layers, such as 400,400; a mean-field network has one"
    )
    model_options: Options = setting({}, NETWORK, "the network's own options, such as activation=tanh or width=16")
    init: Annotated[str, one_of("initialisation", INITS)] = setting(
        MODULE, NETWORK, f"the means' first values: {', '.join(INITS)}"
    )
    noise: Annotated[float | str, number_or("noise", ("learnt", "input"))] = setting(
        "learnt", NETWORK, "regression noise: sd, learnt or input"
    )

    prior: Annotated[str, one_of("prior", SHAPES)] = setting("gaussian", PRIOR, f"its shape: {', '.join(SHAPES.own)}")
    prior_scale: Annotated[float | str, number_or("prior scale", SCALES)] = setting(
        DEFAULT_SCALE, PRIOR, f"its sd: a number, {', '.join(SCALES)}; that of a mixture's wide part"
    )
    prior_mean: Annotated[float | str, number_or("prior mean", ("pretrained",), least=-math.inf)] = setting(
        0.0, PRIOR, "its mean: a number, or pretrained: the first values of the means"
    )
    prior_options: Options = setting(
        {}, PRIOR, "its own options, such as df=5 (student_t), pi=0.25 (mixture), slope=0.1"
    )

    posterior: Annotated[str, AfterValidator(_started)] = setting(
        "mean_field", POSTERIOR, f"the posterior's family: {', '.join(STARTED)} (point: a frequentist network)"
    )
    posterior_options: Options = setting(
        {}, POSTERIOR, "its own options, such as rank=8 (low_rank) or share=layer (tied)"
    )
    rho: float | None = setting(None, POSTERIOR, "initial rho of every weight: sd = softplus(rho)")
    relative_sd: float | None = setting(
        None, POSTERIOR, f"initial sd relative to another, instead of rho; {DEFAULT_RELATIVE_SD:g} by default", gt=0
    )
    relative_to: Annotated[str, one_of("relative_to", (OF_PRIOR, INIT))] = setting(
        OF_PRIOR, POSTERIOR, "what it is relative to: the prior's sd, or that of the means' init"
    )
    ensemble: int = setting(1, POSTERIOR, "independently trained posteriors that are mixed", ge=1)
    deterministic: tuple[str, ...] = setting(
        (), POSTERIOR, "weights that are not Bayesian, by name patterns such as 0.*,*.bias"
    )

    @property
    def network_name(self) -> str:
        """For headings: the model that was named, or that the data decide."""
        return self.model or "network"

    @property
    def key(self) -> str:
        """A hash of what differs from the defaults."""
        different = {name: value for name, value in self._identity().items() if not self.is_default(name)}
        if self.optimizer == FORMER_OPTIMIZER and not self._real:
            del different["optimizer"]  # it was the default, and runs are found that say no more of it
        text = json.dumps({"schema": SCHEMA, **self._rules(), **different}, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def _real(self) -> bool:
        """Whether it is a regression with learnt noise, or might be one."""
        return isinstance(self.noise, str) and self._task in (None, "regression")

    @property
    def _task(self) -> str | None:
        return self.task or (DATASETS[self.dataset].task if self.dataset in DATASETS else None)

    def _rules(self) -> dict[str, int]:
        """The versions of those that it goes by and that have changed."""
        real = self._real
        found = {
            "rule of auto": (7 if real else 6) if self.temperature == Auto.kind else 0,  # by the data (training.course)
            # Small regressions are trained as they were; elsewhere what is not said is another optimiser now.
            "rule of optimizer": 1 if self.optimizer is None and not (real and self._task) else 0,
            "rule of noise": 3 if real else 0,  # at the end: Student-t, with a trend and a stretch
        }
        return {name: number for name, number in found.items() if number}

    def _identity(self) -> dict[str, Any]:
        """Plain values, equal in writing where they are equal: 1 and 1.0 among options are. Patterns have an order."""
        values = self.as_dict()
        for name, value in values.items():
            if isinstance(value, dict):
                numbers = {k: float(v) if type(v) is int else v for k, v in value.items()}
                extra: Any = type(self).model_fields[name].json_schema_extra
                values[name] = list(numbers.items()) if extra["ordered"] else numbers
        return values

    def as_file(self) -> dict[str, Any]:
        """What a file holds: all values (a later default changes no old run), in the panels' order."""
        values = {name: NOTHING if value is None else value for name, value in self.as_dict().items()}
        return {"schema": SCHEMA, **{name: values[name] for names in self.by_panel().values() for name in names}}

    def write(self, path: Path) -> None:
        """As TOML, complete."""
        write_text(path, tomli_w.dumps(self.as_file()))

    @classmethod
    def read(cls, path: Path) -> Run:
        """The inverse of `write`; a key that is missing has its default."""
        try:
            values = tomllib.loads(path.read_text(encoding="utf-8"))
            values.pop("schema", None)
            return cls.model_validate(_from_file(values), strict=True)  # a number in quotes is a mistake
        except FileNotFoundError as error:
            raise UsageError(f"there is no run in {path.parent} (no {path.name})") from error
        except ValidationError as error:
            raise CorruptFileError(f"{path} is not a run's configuration: {explain(error, cls)}") from error
        except (OSError, ValueError, TypeError) as error:  # TOML's errors are ValueErrors
            raise CorruptFileError(f"{path} is not a run's configuration: {error}") from error

    def changed_from(self, other: Run) -> dict[str, tuple[Any, Any]]:
        """By field, the other's value and this one's, where they differ."""
        ours, theirs = self._identity(), other._identity()
        return {name: (getattr(other, name), getattr(self, name)) for name in ours if ours[name] != theirs[name]}


def _from_file(value: Any) -> Any:
    """What TOML's values stand for here, where nothing is None and a list a tuple."""
    if isinstance(value, dict):
        return {name: _from_file(part) for name, part in value.items()}
    if isinstance(value, list):
        return tuple(map(_from_file, value))
    return None if value == NOTHING else value
