"""What the two scikit-learn estimators share: reading tables, training, predicting, saving.

    fit      table -> columns (data.columns) -> standardised -> a run's network, trained as `posterity train` does
    predict  the same way; the weights are drawn with the seed of the training, so that an answer can be repeated, in
             double precision, so that it does not depend on the rows beside it

Rows that weigh 0 are left out; any other weight is used as it is: 2 is the datum twice.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data
from torch import Tensor, nn
from typing_extensions import Self

from posterity.bayesian import BayesianModule
from posterity.core.errors import CorruptFileError, UsageError
from posterity.core.randomness import derive, generator
from posterity.data import Columns, Dataset, Standardisation, Task
from posterity.data.frames import Table, is_frame, table_of
from posterity.experiments.build import Make, build_module, build_network
from posterity.experiments.run import Run
from posterity.integrations.parameters import run_of
from posterity.likelihoods import Prediction
from posterity.storage import load, read_notes, save
from posterity.training import carry_out, plan

Array = NDArray[Any]
ANY: dict[str, Any] = {"dtype": None, "ensure_all_finite": "allow-nan"}  # numbers or text, with gaps


class Estimator(BaseEstimator):  # type: ignore[misc]
    """A network that is trained on tables."""

    _task: Task
    network_: BayesianModule
    history_: list[Any]
    warnings_: list[str]
    seed_: int
    calls_: int

    def _targets(self, y: Array, *, first: bool) -> Tensor:
        """Targets for a `Dataset`; the `first` call learns what they are."""
        raise NotImplementedError

    def _fit(self, X: Any, y: Any, weight: ArrayLike | None, *, first: bool, **changed: Any) -> Self:
        """Train on these rows, from the beginning (`first`) or from the posterior so far."""
        table, y = self._read(X, y, first=first)
        keep, counts = _weights(weight, len(y))
        table = {name: column[keep] for name, column in table.items()}
        if first:
            self.seed_, self.calls_ = _seed(self.random_state), 0
        seed = derive(self.seed_, f"partial_fit/{self.calls_}") if self.calls_ else self.seed_
        run = run_of(self.get_params(deep=False), seed, **changed)
        targets = self._targets(y[keep], first=first)
        if first:
            self.columns_ = Columns.of(table, max_one_hot=run.max_one_hot, embedded=run.embedded)
        data = self._dataset(table, targets, counts)
        if first:
            self.standardisation_ = Standardisation.of(data)
        train, val = self.standardisation_.apply(data, most=torch.float64).to(torch.float64), None
        if run.val_fraction:
            train, val = train.split(run.val_fraction, generator(run.seed, "held out"))
        net = build_network(run, train, _maker(self.model)).double() if first else copy.deepcopy(self.network_)
        result = carry_out(net, plan(net, train, val, run), None)
        self.network_ = (result.averaged or net).eval()
        self.history_, self.warnings_ = list(result.history.records), list(result.ending["warnings"])
        self.calls_ += 1
        return self

    def _dataset(self, table: Table, y: Tensor, counts: Tensor | None) -> Dataset:
        x, names = torch.from_numpy(self.columns_.encode(table)), getattr(self, "classes_", ())
        told = tuple(map(str, names))
        return Dataset(x, y, self._task, len(names), type(self).__name__, counts, told, self.columns_)

    def _read(self, X: Any, y: Any, *, first: bool) -> tuple[Table, Array]:
        """Inputs as columns and targets as an array, checked as scikit-learn does."""
        regression = self._task == "regression"
        y = y.to_numpy() if hasattr(y, "to_numpy") else y
        kinds = {"multi_output": regression, "y_numeric": regression, **ANY}
        if is_frame(X):
            validate_data(self, X, y, reset=first, skip_check_array=True)  # names and number of the columns
            table = table_of(X)
            _, y = validate_data(copy.copy(self), np.empty((len(next(iter(table.values()))), 1)), y, **kinds)
            return table, y
        X, y = validate_data(self, X, y, reset=first, **kinds)
        return table_of(X), y

    def _inputs(self, X: Any) -> Tensor:
        """Standardised inputs to predict from."""
        check_is_fitted(self, "network_")
        checks = {"skip_check_array": True} if is_frame(X) else ANY
        X = validate_data(self, X, reset=False, **checks)
        table = table_of(X)
        if hasattr(self, "feature_names_in_") != is_frame(X):  # one of them has no names, as scikit-learn has warned
            table = dict(zip(self.columns_.names, table.values(), strict=True))
        x = torch.from_numpy(self.columns_.encode(table))
        return self.standardisation_.inputs(x, most=torch.float64)

    def predict_distribution(self, X: Any) -> Prediction:
        """The predictive distribution at `X`, in the targets' own units: uncertainty by source, samples, intervals."""
        x = self._inputs(X)
        prediction = self.network_.predict(x, self.prediction_samples, seed=self.seed_)
        if self._task != "regression":
            return prediction
        return prediction.rescaled(self.standardisation_.y_mean, self.standardisation_.y_sd)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = tags.input_tags.string = tags.input_tags.categorical = True
        tags.target_tags.required = True
        return tags

    def save(self, path: str | Path) -> None:
        """Write the trained estimator to `path`: safetensors with a description, nothing executable."""
        check_is_fitted(self, "network_")
        save(self.network_, path, notes=self._notes())

    def _notes(self) -> dict[str, Any]:
        params = self.get_params(deep=False)
        names = getattr(self, "feature_names_in_", None)
        return {
            "estimator": type(self).__name__,
            "params": {name: _plain(value) for name, value in params.items() if _is_plain(value)},
            "code": [name for name, value in params.items() if not _is_plain(value)],
            "columns": self.columns_.as_dict(),
            "standardisation": {name: values.tolist() for name, values in self.standardisation_.state().items()},
            "n_features_in": self.n_features_in_,
            "feature_names_in": None if names is None else list(names),
            "seed": self.seed_,
            "calls": self.calls_,
        }

    @classmethod
    def load(cls, path: str | Path, **params: Any) -> Self:
        """The estimator saved at `path`; parameters that are code, such as an own `model`, must be given again."""
        notes = read_notes(path)
        if notes.get("estimator") != cls.__name__:
            raise UsageError(f"{path} holds {notes.get('estimator', 'a network')}, not a {cls.__name__}")
        code = [name for name in notes["code"] if name not in params and name != "random_state"]
        if code:
            again = ", ".join(f"{name}=..." for name in code)
            raise UsageError(f"{path} was trained with your own {', '.join(code)}, which is code: load(path, {again})")
        made = cls(**{**notes["params"], **params})
        try:
            made._take(notes)
        except (KeyError, TypeError, ValueError) as error:
            raise CorruptFileError(f"{path} does not describe a {cls.__name__}: {error}") from error
        made.network_ = load(path, made._module(run_of(made.get_params(deep=False), made.seed_))).eval()
        return made

    def _take(self, notes: dict[str, Any]) -> None:
        """The inverse of `_notes`."""
        self.columns_ = Columns.from_dict(notes["columns"])
        kept = {name: torch.tensor(v, dtype=torch.float64) for name, v in notes["standardisation"].items()}
        self.standardisation_ = Standardisation.from_state(kept)
        self.n_features_in_ = notes["n_features_in"]
        if notes["feature_names_in"] is not None:
            self.feature_names_in_ = np.array(notes["feature_names_in"], dtype=object)
        self.seed_, self.calls_ = notes["seed"], notes["calls"]
        self.history_, self.warnings_ = [], []

    def _module(self, run: Run) -> nn.Module:
        """The plain network, as it was built."""
        features, targets = len(self.columns_.features), len(self.standardisation_.y_mean)
        outputs = len(self.classes_) if self._task == "classification" else targets * (1 + (run.noise == "input"))
        return build_module(run, (features,), outputs, self.columns_.codes, _maker(self.model))


def _maker(model: Any) -> Make | None:
    """What builds the network, where it is code."""
    if isinstance(model, nn.Module):
        return lambda _, __: copy.deepcopy(model)
    if callable(model):
        return lambda shape, outputs: model(shape[0], outputs)
    return None


def _seed(random_state: Any) -> int:
    if isinstance(random_state, Integral):
        return int(random_state)
    return int(check_random_state(random_state).randint(2**31 - 1))


def _weights(weight: ArrayLike | None, rows: int) -> tuple[Array, Tensor | None]:
    """The rows that count, and how often they do; None where all count once."""
    if weight is None:
        return np.arange(rows), None
    counts: Array = _check_sample_weight(weight, np.empty((rows, 1)), dtype=np.float64, ensure_non_negative=True)
    keep = np.flatnonzero(counts)
    return keep, None if (counts[keep] == 1).all() else torch.from_numpy(counts[keep])


def _is_plain(value: Any) -> bool:
    """Whether a file can hold it."""
    if isinstance(value, dict):
        return all(_is_plain(each) for each in value.values())
    if isinstance(value, Sequence) and not isinstance(value, str):
        return all(_is_plain(each) for each in value)
    return value is None or isinstance(value, (str, bool, int, float, np.integer, np.floating))


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
