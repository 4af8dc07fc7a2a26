"""The parameters of the scikit-learn estimators: the fields of a run's schema, and what scikit-learn has of its own.

What says which data a run has is given to `fit` instead, and the seed is `random_state`. scikit-learn wants defaults
that nobody can change: a table of options that is left out is None.
"""

from __future__ import annotations

import inspect
from collections.abc import Collection
from typing import Any, TypeVar

from posterity.core.errors import UsageError, unknown_name
from posterity.experiments.run import Run
from posterity.prediction import DEFAULT_SAMPLES

_GIVEN_OTHERWISE = {
    "dataset", "split", "target", "task", "train_rows", "test_rows", "augmentation", "rank_noise",
    "seed", "model", "hidden",
}  # fmt: skip
_OWN: dict[str, tuple[Any, str]] = {
    "model": (
        None,
        "the network: an nn.Module, a function of (n_features, n_outputs) that makes one, a model's name, or the "
        "widths of hidden layers such as (64, 64); the library's network for tables by default",
    ),
    "prediction_samples": (DEFAULT_SAMPLES, "weight samples in a prediction"),
    "random_state": (None, "seed of all randomness, a RandomState, or None for another one each time"),
}
Estimator = TypeVar("Estimator", bound=type)


def with_parameters(*, without: Collection[str] = ()) -> Any:
    """A class decorator: its `__init__` takes the parameters and stores them, and its docstring tells them."""
    fields = {n: f for n, f in Run.model_fields.items() if n not in _GIVEN_OTHERWISE and n not in without}
    defaults = {name: default for name, (default, _) in _OWN.items()}
    defaults |= {name: None if isinstance(f.default, dict) else f.default for name, f in fields.items()}
    meanings = {name: meaning for name, (_, meaning) in _OWN.items()} | {n: f.description for n, f in fields.items()}

    def decorate(cls: Estimator) -> Estimator:
        def __init__(self: Any, **given: Any) -> None:
            for name in given:
                if name not in defaults:
                    raise TypeError(str(unknown_name(f"parameter of {cls.__name__}", name, defaults)))
            for name, default in defaults.items():
                setattr(self, name, given.get(name, default))

        kind = inspect.Parameter.KEYWORD_ONLY
        own = [inspect.Parameter(name, kind, default=default) for name, default in defaults.items()]
        first = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
        __init__.__signature__ = inspect.Signature([first, *own])  # type: ignore[attr-defined]
        cls.__init__ = __init__  # type: ignore[misc]
        told = "".join(f"\n    {name}: {meaning} ({defaults[name]!r})" for name, meaning in meanings.items())
        cls.__doc__ = f"{cls.__doc__}\n\n    Parameters:{told}\n    "
        return cls

    return decorate


def run_of(params: dict[str, Any], seed: int, **changed: Any) -> Run:
    """The run that the parameters describe."""
    values = {n: v for n, v in params.items() if n in Run.model_fields and n != "model"}
    values = {n: v for n, v in values.items() if not (v is None and isinstance(Run.model_fields[n].default, dict))}
    model = params["model"]
    if isinstance(model, str):
        values["model"] = model
    elif isinstance(model, (tuple, list)):
        values |= {"model": "mlp", "hidden": tuple(model)}
    elif not (model is None or callable(model)):
        raise UsageError(
            f"model is a network, a function that makes one, a name, or the widths of hidden layers, not {model!r}"
        )
    return Run.of(**{**values, "seed": seed, **changed})
