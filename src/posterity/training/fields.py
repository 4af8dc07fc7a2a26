"""How a field of a schema is declared: default, panel of the help, meaning, bounds; and its complaints, for people."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from numbers import Real
from typing import Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, ValidationError

from posterity.core.errors import PosterityError, UsageError, unknown_name

DATA, NETWORK, PRIOR, POSTERIOR = "Data", "Network", "Prior", "Posterior"
OPTIMISER, SDS, AVERAGING = "Optimiser", "Optimiser of the standard deviations", "Averaging"
TEMPERATURE, GRADIENT, STOPPING = "Temperature", "Gradient", "Stopping, validation and seed"
# What others call a setting.
OTHER_NAMES = {
    "batch": "batch_size",
    "beta": "temperature",
    "early_stopping": "patience",
    "grad_clip": "clip",
    "gradient_clip": "clip",
    "kl_weight": "temperature",
    "learning_rate": "lr",
    "lr_scheduler": "schedule",
    "max_epochs": "epochs",
    "n_epochs": "epochs",
    "n_samples": "samples",
    "num_epochs": "epochs",
    "num_samples": "samples",
    "optim": "optimizer",
    "random_state": "seed",
    "scheduler": "schedule",
}
PANELS = (DATA, NETWORK, PRIOR, POSTERIOR, OPTIMISER, SDS, AVERAGING, TEMPERATURE, GRADIENT, STOPPING)  # in this order


def setting(default: Any, panel: str, meaning: str, *, ordered: bool = False, accepts: str = "", **bounds: Any) -> Any:
    """A field of the schema; of an `ordered` table the order matters; `accepts` is a type that stands for values."""
    extra: dict[str, Any] = {"panel": panel, "ordered": ordered, "accepts": accepts}
    return Field(default, description=meaning, json_schema_extra=extra, **bounds)


def one_of(kind: str, names: Collection[str]) -> AfterValidator:
    """Refuses a name that is not among `names`, and suggests the nearest."""

    def check(value: str | None) -> str | None:
        if value is not None and value not in names:
            available = getattr(names, "available", None)  # of a registry, to which packages may add
            raise unknown_name(kind, value, available() if available else names)
        return value

    return AfterValidator(check)


def number_or(kind: str, names: Collection[str], *, least: float = 0.0) -> BeforeValidator:
    """Takes a number of at least `least`, or one of `names`."""

    def check(value: Any) -> Any:
        if isinstance(value, str) and value not in names:
            raise unknown_name(f"{kind} (a number, or the name of a rule)", value, names)
        number = type(value) is not bool and isinstance(value, Real) and least <= float(value) < math.inf
        if not (number or isinstance(value, str)):
            raise UsageError(f"the {kind} must be a number of at least {least:g}, {' or '.join(names)}, not {value!r}")
        return value

    return BeforeValidator(check)


def explain(error: ValidationError, schema: type[BaseModel]) -> str:
    """A schema's complaints in one line."""
    return "; ".join(_complaint(e, schema) for e in error.errors())


def _complaint(e: Any, schema: type[BaseModel]) -> str:
    place: str = str(e["loc"][0]) if e["loc"] else ""
    inner = e.get("ctx", {}).get("error")
    if isinstance(inner, PosterityError):
        return str(inner)
    if e["type"] == "extra_forbidden":
        elsewhere: Mapping[str, str] = getattr(schema, "elsewhere", {})
        hint = f"Here it is '{OTHER_NAMES[place]}'." if place in OTHER_NAMES else elsewhere.get(place, "")
        return str(unknown_name("setting", place, schema.model_fields, hint=hint))
    field = schema.model_fields.get(place)
    described = field.description if field else None
    # What a share is a share of: others may take it for a number of epochs or of rows.
    meaning = f", a {described}" if described and described.startswith("share of") else ""
    return f"{'.'.join(map(str, e['loc']))}: {e['msg']}{meaning} (given: {e['input']!r})"
