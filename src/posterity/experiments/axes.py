"""An axis of a study: what one setting takes on, all of it in turn or by chance.

    grid         each of these values, crossed with those of the other grids
    choices      one of these values
    uniform      between two numbers
    log_uniform  the same, uniform in the logarithm
    normal       around v with sd |v| / 2, cut to the valid range (source 000, table 5.2)

A draw depends on the study's seed, the axis' name and the draw's number alone. So a longer search extends a shorter
one, and cells of a grid share their draws: differences between them are paired.
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import torch
from annotated_types import Ge, Gt, Le, Lt
from pydantic import BaseModel, ConfigDict, model_validator

from posterity.core.errors import UsageError, unknown_name
from posterity.core.randomness import generator
from posterity.experiments.run import Run

if TYPE_CHECKING:
    from optuna import Trial

KINDS = ("grid", "choices", "uniform", "log_uniform", "normal")
RANGE = tuple[float, float]
TRIES = 10_000  # of a normal that is cut


class Axis(BaseModel):
    """One of the kinds; `low` and `high` cut a normal, `integer` rounds what is drawn."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    grid: tuple[Any, ...] | None = None
    choices: tuple[Any, ...] | None = None
    uniform: RANGE | None = None
    log_uniform: RANGE | None = None
    normal: float | None = None
    low: float | None = None
    high: float | None = None
    integer: bool = False

    @model_validator(mode="before")
    @classmethod
    def _from_list(cls, given: Any) -> Any:
        """A plain list is a grid."""
        return {"grid": given} if isinstance(given, (list, tuple)) else given

    @model_validator(mode="after")
    def _check(self) -> Axis:
        given = [kind for kind in KINDS if getattr(self, kind) is not None]
        if len(given) != 1:
            said = f"{' and '.join(given)} together" if given else "none of them"
            raise UsageError(f"an axis is a list, or a table with one of {', '.join(KINDS)}, not {said}")
        if self.grid == () or self.choices == ():
            raise UsageError(f"an axis needs a value at least: {self.kind} is empty")
        span = self.uniform or self.log_uniform
        if span is not None and not (span[0] < span[1] and (self.uniform is not None or span[0] > 0)):
            raise UsageError(f"{self.kind} takes two numbers, the lower{' (above 0)' * (self.uniform is None)} first")
        if self.normal is None and (self.low is not None or self.high is not None):
            raise UsageError(f"low and high cut a normal axis, not one of {self.kind}")
        if self.normal == 0:
            raise UsageError("a normal axis has the sd |v| / 2: around 0 there is nothing to draw; give another kind")
        return self

    @property
    def kind(self) -> str:
        """Which of the kinds."""
        return next(kind for kind in KINDS if getattr(self, kind) is not None)

    @property
    def is_random(self) -> bool:
        """Whether its values are drawn."""
        return self.grid is None

    def draw(self, seed: int, name: str, number: int) -> Any:
        """The draw of this number."""
        random = generator(seed, f"axis {name}, draw {number}")
        if self.grid or self.choices:
            values = self.grid or self.choices or ()
            return values[int(torch.randint(len(values), (), generator=random))]
        if self.normal is not None:
            return self._number(self._cut_normal(self.normal, name, random))
        low, high = self.uniform or self.log_uniform or (0.0, 1.0)
        share = torch.rand((), dtype=torch.float64, generator=random).item()
        if self.log_uniform:
            return self._number(math.exp(math.log(low) + share * (math.log(high) - math.log(low))))
        return self._number(low + share * (high - low))

    def _number(self, value: float) -> float | int:
        return round(value) if self.integer else value

    def _cut_normal(self, centre: float, name: str, random: torch.Generator) -> float:
        low, high = (-math.inf if self.low is None else self.low), (math.inf if self.high is None else self.high)
        for _ in range(TRIES):
            value = centre + abs(centre) / 2 * torch.randn((), dtype=torch.float64, generator=random).item()
            if low <= self._number(value) <= high:
                return value
        raise UsageError(
            f"axis {name}: next to nothing of N({centre:g}, {abs(centre) / 2:g}) lies in [{low:g}, {high:g}]"
        )

    def suggest(self, trial: Trial, name: str) -> Any:
        """The value that an adaptive search wants to try."""
        if self.grid or self.choices:
            values = {_word(value): value for value in self.grid or self.choices or ()}
            return values[trial.suggest_categorical(name, list(values))]
        low, high = self.uniform or self.log_uniform or (0.0, 1.0)
        log = self.log_uniform is not None
        if self.integer:
            return trial.suggest_int(name, math.ceil(low), math.floor(high), log=log)
        return trial.suggest_float(name, low, high, log=log)


def _word(value: Any) -> Any:
    """Optuna's categories are plain: a list stands there as text."""
    return value if value is None or isinstance(value, (bool, int, float, str)) else json.dumps(value)


def bounded(name: str, axis: Axis) -> Axis:
    """A run's axis with the range and the kind of its field; the range of an option must be given beside a normal."""
    head, dot, _ = name.partition(".")
    if head not in Run.model_fields:
        raise unknown_name("setting on an axis", head, Run.model_fields)
    field = Run.model_fields[head]
    if dot:
        if not isinstance(field.default, dict):
            raise UsageError(f"axis {name}: {head} is no table of options")
        if axis.normal is not None and axis.low is None and axis.high is None:
            raise UsageError(f"axis {name}: the valid range of an option is not known; give low and high beside normal")
        return axis
    kinds = str(field.annotation)
    changes: dict[str, Any] = {"integer": axis.integer or ("int" in kinds and "float" not in kinds)}
    if axis.normal is not None:
        low, high = field_range(field.metadata)
        changes |= {"low": low if axis.low is None else axis.low, "high": high if axis.high is None else axis.high}
    return axis.model_copy(update=changes)


def field_range(metadata: list[Any]) -> tuple[float | None, float | None]:
    """The least and the greatest value that a field's bounds allow."""
    low = high = None
    for bound in metadata:
        if isinstance(bound, (Gt, Ge)):
            low = float(bound.ge) if isinstance(bound, Ge) else math.nextafter(float(bound.gt), math.inf)  # type: ignore[arg-type]
        if isinstance(bound, (Lt, Le)):
            high = float(bound.le) if isinstance(bound, Le) else math.nextafter(float(bound.lt), -math.inf)  # type: ignore[arg-type]
    return low, high
