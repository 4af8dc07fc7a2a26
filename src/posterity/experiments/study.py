"""Study: a question over many runs, as it stands in a study.toml.

    name = "momentum"            by default the file's name
    seeds = 3                    repetitions: so many seeds from the run's own, or a list of them
    count = 40                   draws of the axes that are drawn
    record = ["accuracy", "val_*"]    which metrics are kept; all by default

    [run]                        the base: settings of a run;  or: function = "exact_elbo", and [parameters]
    optimizer = "sgd"

    [axes]
    lr = { log_uniform = [1e-3, 1.0] }
    "optimizer_options.momentum" = [0.0, 0.5, 0.9]

    [[cases]]                    groups with settings and axes of their own, one after the other
    run = { optimizer = "adam" }
    axes = { lr = { normal = 1e-3 } }

    [scales.smoke]               what is different at this scale: run, axes, parameters, seeds, count, cases
    count = 2

An adaptive search has sampler = "tpe", a metric, perhaps a direction, and prune = "median" or "hyperband".
All items of another study are known beforehand, and depend on nothing but the file: whoever runs one runs the same.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import tomli_w
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from posterity.core.errors import UsageError
from posterity.experiments.axes import Axis, bounded
from posterity.experiments.functions import check_function
from posterity.experiments.overlay import at_scale, explain, merge, with_nothing, with_values, without_nothing
from posterity.experiments.results import is_lower_better
from posterity.experiments.row import flat
from posterity.experiments.run import Run
from posterity.prediction import DEFAULT_SAMPLES
from posterity.storage import write_text

if TYPE_CHECKING:
    from optuna import Trial

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

STRICT = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
TPE = "tpe"


@dataclass(frozen=True)
class Item:
    """One thing to do: a run, or a call of a function. Its key says what it is, wherever and whenever it is done."""

    key: str
    config: Mapping[str, Any]
    run: Run | None = None
    function: str = ""


class Case(BaseModel):
    """Settings and axes of a group of items."""

    model_config = STRICT

    run: dict[str, Any] = {}
    parameters: dict[str, Any] = {}
    axes: dict[str, Axis] = {}


class Study(BaseModel):
    """See the module; `items` are its items, `suggest` makes one for an adaptive search."""

    model_config = STRICT

    name: str = Field("study", pattern=r"^[\w.-]+$")
    run: dict[str, Any] = {}
    function: str | None = None
    parameters: dict[str, Any] = {}
    axes: dict[str, Axis] = {}
    cases: tuple[Case, ...] = ()
    seeds: int | tuple[int, ...] = 1
    count: int | None = Field(None, ge=1)
    seed: int = Field(0, ge=0)
    sampler: Literal["grid", "random", "tpe"] | None = None
    metric: str | None = None
    direction: Literal["minimize", "maximize"] | None = None
    prune: Literal["median", "hyperband"] | None = None
    record: tuple[str, ...] = ()
    samples: int = Field(DEFAULT_SAMPLES, ge=1)
    ood: tuple[str, ...] = ()

    @classmethod
    def of(cls, given: Study | str | Path | Mapping[str, Any], *, scale: str | None = None) -> Study:
        """From a file, a folder that holds one, a mapping; at one of its scales."""
        if isinstance(given, Study):
            return given
        if not isinstance(given, Mapping):
            return cls.read(Path(given), scale=scale)
        values = at_scale(dict(given), scale)
        try:
            study = cls(**values)
        except ValidationError as error:
            raise UsageError(explain(error, cls)) from error
        study._check()
        return study

    @classmethod
    def read(cls, path: Path, *, scale: str | None = None) -> Study:
        """From `path`, or from the study.toml there."""
        file = path / "study.toml" if path.is_dir() else path
        try:
            values = tomllib.loads(file.read_text(encoding="utf-8"))
        except FileNotFoundError as error:
            raise UsageError(f"there is no study {file}") from error
        except (OSError, ValueError) as error:
            raise UsageError(f"{file} is not TOML: {error}") from error
        try:
            return cls.of({"name": file.stem, **values}, scale=scale)
        except UsageError as error:
            raise UsageError(f"{file}: {error}") from error

    def write(self, path: Path) -> None:
        """As TOML; the scale was chosen already."""
        values = self.model_dump(mode="json", exclude_defaults=True)
        write_text(path, tomli_w.dumps({"name": self.name, **with_nothing(values)}))

    @model_validator(mode="before")
    @classmethod
    def _nothing(cls, values: Any) -> Any:
        return without_nothing(values)

    @property
    def adaptive(self) -> bool:
        """Whether its items follow from what was found."""
        return self.sampler == TPE

    @property
    def lowest(self) -> bool:
        """Whether less of its metric is better."""
        return is_lower_better(self.metric or "") if self.direction is None else self.direction == "minimize"

    @property
    def ranges(self) -> set[str]:
        """The settings whose values, or parts of them, are drawn from a range, and so hardly ever twice the same."""
        axes = [axis for case in self._cases() for axis in case.axes.items()]
        drawn = {name for name, axis in axes if axis.grid is None and axis.choices is None}
        return drawn | {whole for whole, _, part in (name.rpartition(".") for name in drawn) if part.isdigit()}

    @cached_property
    def digest(self) -> str:
        """What makes it this study and no other; a longer search is the same one."""
        beside = {"count", "name"} if self.adaptive else {"name"}
        text = json.dumps(self.model_dump(mode="json", exclude=beside), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    @cached_property
    def items(self) -> dict[str, Item]:
        """All that is to be done by key, each once; an adaptive search's are places that are still empty."""
        if self.adaptive:
            return {f"trial-{number:05d}": Item(f"trial-{number:05d}", {}) for number in range(self.count or 0)}
        found = (self._item(values) for case in self._cases() for values in self._values(case))
        return {item.key: item for item in found}

    def suggest(self, trial: Trial) -> Item:
        """The item that an adaptive search wants to try."""
        (case,) = self._cases()
        chosen = {name: axis.suggest(trial, name) for name, axis in case.axes.items()}
        return self._item(with_values({**case.run, **case.parameters}, chosen))

    def _cases(self) -> Iterator[Case]:
        """The cases, complete; a study without any is one."""
        for case in self.cases or (Case(),):
            axes = {**self.axes, **case.axes}
            yield Case(
                run=merge(self.run, case.run),
                parameters={**self.parameters, **case.parameters},
                axes={name: axis if self.function else bounded(name, axis) for name, axis in axes.items()},
            )

    def _values(self, case: Case) -> Iterator[dict[str, Any]]:
        """Settings of each item: grids crossed, then draws, then seeds."""
        base = {**case.run, **case.parameters}
        drawn = {name: axis for name, axis in case.axes.items() if axis.is_random or self.sampler == "random"}
        grids = {name: axis.grid or () for name, axis in case.axes.items() if name not in drawn}
        for cell in itertools.product(*grids.values()):
            for number in range((self.count or 1) if drawn else 1):
                draws = {name: axis.draw(self.seed, name, number) for name, axis in drawn.items()}
                values = with_values(base, {**dict(zip(grids, cell, strict=True)), **draws})
                for seed in self._seeds(base.get("seed", 0)):
                    yield values if "seed" in case.axes else {**values, "seed": seed}

    def _seeds(self, first: int) -> tuple[int, ...]:
        return tuple(range(first, first + self.seeds)) if isinstance(self.seeds, int) else self.seeds

    def _item(self, values: Mapping[str, Any]) -> Item:
        if self.function is None:
            run = Run.of(**values)
            return Item(run.key, flat(run.as_dict()), run)
        check_function(self.function, values)
        text = json.dumps({"function": self.function, **values}, sort_keys=True)
        key = hashlib.sha256(text.encode()).hexdigest()[:16]
        return Item(key, flat({"function": self.function, **values}), function=self.function)

    def _check(self) -> None:
        """Refuse what does not go together; building all items refuses what is wrong with one."""
        if self.function is not None and any((self.run, *(case.run for case in self.cases), self.ood, self.prune)):
            raise UsageError("a study is one of runs or of a function: leave out function, or run, ood and prune")
        if self.function is None and any((self.parameters, *(case.parameters for case in self.cases))):
            raise UsageError("parameters go with a function; the settings of a run stand in [run]")
        if isinstance(self.seeds, int) and self.seeds < 1:
            raise UsageError(f"seeds is a number of at least 1, or a list, not {self.seeds}")
        axes = [axis for case in self._cases() for axis in case.axes.values()]
        drawn = self.sampler in ("random", TPE) or any(axis.is_random for axis in axes)
        if drawn and self.count is None:
            raise UsageError("a study whose axes are drawn needs a count, such as count = 40")
        if not drawn and self.count is not None:
            raise UsageError("count is the number of draws, but all axes are lists: leave it out, or draw one")
        if self.sampler == "grid" and any(axis.is_random for axis in axes):
            raise UsageError("sampler 'grid' takes lists; leave it out, and an axis of another kind is drawn")
        if self.adaptive:
            self._check_adaptive()
        elif self.prune is not None:
            raise UsageError("prune goes with an adaptive search: sampler = 'tpe'")
        elif not self.items:
            raise UsageError("the study has no items")

    def _check_adaptive(self) -> None:
        if self.metric is None:
            raise UsageError("an adaptive search needs a metric, such as metric = 'val_nll'")
        if self.cases or self.seeds != 1:
            raise UsageError("an adaptive search has one case and one seed, the run's: leave out cases and seeds")
        if self.prune and not self.metric.startswith(("val_", "loss", "kl")):
            raise UsageError(f"pruning needs a metric that every epoch has, such as val_nll, not '{self.metric}'")
        (case,) = self._cases()
        if not case.axes:
            raise UsageError("an adaptive search needs axes")
        if normal := [name for name, axis in case.axes.items() if axis.normal is not None]:
            raise UsageError(f"axis {normal[0]}: an adaptive search takes uniform, log_uniform or values, not a normal")
        for number in range(2):  # wrong names and kinds of values are refused before the first trial
            chosen = {name: axis.draw(self.seed, name, number) for name, axis in case.axes.items()}
            self._item(with_values({**case.run, **case.parameters}, chosen))
