"""BayesianClassifier and BayesianRegressor: Bayesian networks as scikit-learn estimators.

    fit      table -> columns (data.columns) -> standardised -> a run's network, trained as `posterity train` does
    predict  the same way; the weights are drawn with the seed of the training, so that an answer can be repeated, in
             double precision, so that it does not depend on the rows beside it

Rows that weigh 0 are left out; any other weight is used as it is: 2 is the datum twice. `partial_fit` goes on from the
posterior so far; columns, standardisation and classes stay those of its first call.
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
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import check_random_state, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data
from torch import Tensor, nn
from typing_extensions import Self

from posterity.bayesian import BayesianModule
from posterity.core.errors import CorruptFileError, DataError, UsageError
from posterity.core.randomness import derive, generator
from posterity.data import Columns, Dataset, Standardisation, Task
from posterity.data.frames import Table, is_frame, table_of
from posterity.experiments.build import Make, build_module, build_network
from posterity.experiments.run import Run
from posterity.integrations.parameters import run_of, with_parameters
from posterity.likelihoods import Prediction
from posterity.likelihoods.prediction import DEFAULT_LEVEL
from posterity.storage import load, read_notes, save
from posterity.training import carry_out, plan

Array = NDArray[Any]


class _Bayesian(BaseEstimator):  # type: ignore[misc]
    """What both estimators share."""

    _task: Task
    network_: BayesianModule

    def _targets(self, y: Array, *, first: bool) -> Tensor:
        """Targets for a `Dataset`; the `first` call learns what they are."""
        raise NotImplementedError

    def _fit(self, X: Any, y: Any, weight: ArrayLike | None, *, first: bool, **changed: Any) -> Self:
        """Train on these rows, from the beginning (`first`) or from the posterior so far."""
        table, y = self._read(X, y, first=first)
        keep, counts = _weights(weight, len(y))
        y = y[keep]
        table = {name: column[keep] for name, column in table.items()}
        params = self.get_params(deep=False)
        if first:
            self.seed_ = _seed(self.random_state)
        run = run_of(params, self.seed_ if first else derive(self.seed_, f"partial_fit/{self.calls_}"), **changed)
        targets = self._targets(y, first=first)
        if first:
            self.columns_ = Columns.of(table, max_one_hot=run.max_one_hot, embedded=run.embedded)
        data = self._dataset(table, targets, counts)
        if first:
            self.standardisation_ = Standardisation.of(data)
        train, val = self.standardisation_.apply(data).to(torch.float32), None
        if run.val_fraction:
            train, val = train.split(run.val_fraction, generator(run.seed, "held out"))
        net = build_network(run, train, _maker(self.model)) if first else copy.deepcopy(self.network_).float()
        result = carry_out(net, plan(net, train, val, run), None)
        self.network_ = (result.averaged or net).double().eval()
        self.history_ = list(result.history.records)
        self.warnings_ = list(result.ending["warnings"])
        self.calls_ = 1 if first else self.calls_ + 1
        return self

    def _dataset(self, table: Table, y: Tensor, counts: Tensor | None) -> Dataset:
        x = torch.from_numpy(self.columns_.encode(table))
        names = getattr(self, "classes_", ())
        return Dataset(
            x, y, self._task, len(names), type(self).__name__, counts, tuple(map(str, names)), self.columns_
        )

    def _read(self, X: Any, y: Any, *, first: bool) -> tuple[Table, Array]:
        """Inputs as columns and targets as an array, checked as scikit-learn does."""
        regression = self._task == "regression"
        y = y.to_numpy() if hasattr(y, "to_numpy") else y
        kinds = {"multi_output": regression, "y_numeric": regression, **_ANY}
        if is_frame(X):
            validate_data(self, X, y, reset=first, skip_check_array=True)
            stand_in = np.empty((len(X), 1))
            _, y = validate_data(copy.copy(self), stand_in, y, **kinds)
            return table_of(X), y
        X, y = validate_data(self, X, y, reset=first, **kinds)
        return table_of(X), y

    def _inputs(self, X: Any) -> Tensor:
        """Standardised inputs to predict from."""
        check_is_fitted(self, "network_")
        if is_frame(X):
            validate_data(self, X, reset=False, skip_check_array=True)
        else:
            X = validate_data(self, X, reset=False, **_ANY)
        table = table_of(X)
        names = getattr(self, "feature_names_in_", None)
        if names is not None and not is_frame(X):  # scikit-learn has warned that these have no names
            table = dict(zip(self.columns_.names, table.values(), strict=True))
        elif names is None and is_frame(X):
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
            "given_again": [name for name, value in params.items() if not _is_plain(value)],
            "columns": self.columns_.as_dict(),
            "standardisation": {name: t.tolist() for name, t in self.standardisation_.state().items()},
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
        lacking = [n for n in notes["given_again"] if n not in params and n != "random_state"]
        if lacking:
            again = ", ".join(f"{name}=..." for name in lacking)
            raise UsageError(f"{path} was trained with a {', '.join(lacking)} of your own, which is code: load({again})")
        made = cls(**{**notes["params"], **params})
        try:
            made._take(notes)
        except (KeyError, TypeError, ValueError) as error:
            raise CorruptFileError(f"{path} does not describe a {cls.__name__}: {error}") from error
        run = run_of(made.get_params(deep=False), made.seed_)
        made.network_ = load(path, made._module(run)).eval()
        return made

    def _take(self, notes: dict[str, Any]) -> None:
        self.columns_ = Columns.from_dict(notes["columns"])
        kept = {n: torch.tensor(v, dtype=torch.float64) for n, v in notes["standardisation"].items()}
        self.standardisation_ = Standardisation.from_state(kept)
        self.n_features_in_ = notes["n_features_in"]
        if notes["feature_names_in"] is not None:
            self.feature_names_in_ = np.array(notes["feature_names_in"], dtype=object)
        self.seed_, self.calls_ = notes["seed"], notes["calls"]
        self.history_: list[Any] = []
        self.warnings_: list[str] = []

    def _module(self, run: Run) -> nn.Module:
        """The plain network, as it was built."""
        features, count = len(self.columns_.features), len(self.standardisation_.y_mean)
        outputs = len(self.classes_) if self._task == "classification" else count * (2 if run.noise == "input" else 1)
        return build_module(run, (features,), outputs, self.columns_.codes, _maker(self.model))


@with_parameters(without=["noise"])
class BayesianClassifier(ClassifierMixin, _Bayesian):  # type: ignore[misc]
    """A Bayesian network that tells classes, with probabilities that know what they do not know."""

    _task: Task = "classification"

    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Train on the rows `X`, an array or a frame, with the labels `y`: numbers or text."""
        return self._fit(X, y, sample_weight, first=True)

    def partial_fit(
        self, X: Any, y: Any, classes: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Go on training with these rows, once through if `epochs` was not given; `classes` are all there will be.

        They are needed in the first call if its rows lack one.
        """
        first = not hasattr(self, "network_")
        if first and classes is not None:
            self._announced = np.unique(np.asarray(classes))
        try:
            return self._fit(X, y, sample_weight, first=first, epochs=self.epochs or 1)
        finally:
            self.__dict__.pop("_announced", None)

    def _targets(self, y: Array, *, first: bool) -> Tensor:
        check_classification_targets(y)
        y = column_or_1d(y)
        if first:
            self.classes_ = getattr(self, "_announced", np.unique(y))
        if len(self.classes_) < 2:
            raise DataError(f"the labels are of one class, {self.classes_[0]!r}, alone; a classifier needs two at least.")
        places = np.searchsorted(self.classes_, y).clip(max=len(self.classes_) - 1)
        strange = np.unique(y[self.classes_[places] != y])
        if len(strange):
            raise DataError(f"the label {strange[0]!r} is none of the classes {list(self.classes_)} of the first call.")
        return torch.from_numpy(places.astype(np.int64))

    def predict_proba(self, X: Any) -> Array:
        """Probabilities (n, classes) in the order of `classes_`."""
        probabilities = self.predict_distribution(X).mean.numpy()
        found: Array = probabilities / probabilities.sum(1, keepdims=True)
        return found

    def predict(self, X: Any) -> Array:
        """The most probable class of each row."""
        chosen = self.predict_proba(X).argmax(1)
        found: Array = self.classes_[chosen]
        return found

    def _notes(self) -> dict[str, Any]:
        return {**super()._notes(), "classes": self.classes_.tolist(), "classes_dtype": self.classes_.dtype.str}

    def _take(self, notes: dict[str, Any]) -> None:
        self.classes_ = np.array(notes["classes"], dtype=np.dtype(notes["classes_dtype"]))
        super()._take(notes)


@with_parameters()
class BayesianRegressor(RegressorMixin, _Bayesian):  # type: ignore[misc]
    """A Bayesian network that predicts quantities, one or several, with their uncertainty."""

    _task: Task = "regression"

    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Train on the rows `X`, an array or a frame, with the targets `y` (n,) or (n, k)."""
        return self._fit(X, y, sample_weight, first=True)

    def partial_fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Go on training with these rows, once through if `epochs` was not given."""
        first = not hasattr(self, "network_")
        return self._fit(X, y, sample_weight, first=first, epochs=self.epochs or 1)

    def _targets(self, y: Array, *, first: bool) -> Tensor:
        if first:
            self.one_target_ = y.ndim == 1
        targets = torch.from_numpy(np.array(y, dtype=np.float64))
        return targets.unsqueeze(1) if targets.ndim == 1 else targets

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """The predictive mean (n,), or (n, k); with `return_std` its standard deviation, too."""
        prediction = self.predict_distribution(X)
        mean = self._shaped(prediction.mean)
        return (mean, self._shaped(prediction.sd)) if return_std else mean

    def predict_interval(self, X: Any, level: float = DEFAULT_LEVEL) -> tuple[Array, Array]:
        """The central interval that holds a new target with probability `level`: its low and high ends."""
        low, high = self.predict_distribution(X).interval(level)
        return self._shaped(low), self._shaped(high)

    def _shaped(self, values: Tensor) -> Array:
        found: Array = values.numpy()
        return found[:, 0] if self.one_target_ else found

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def _notes(self) -> dict[str, Any]:
        return {**super()._notes(), "one_target": self.one_target_}

    def _take(self, notes: dict[str, Any]) -> None:
        self.one_target_ = notes["one_target"]
        super()._take(notes)


_ANY: dict[str, Any] = {"dtype": None, "ensure_all_finite": "allow-nan"}  # numbers or text, with gaps


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
    if isinstance(value, dict):
        return all(_is_plain(each) for each in value.values())
    if isinstance(value, Sequence) and not isinstance(value, str):
        return all(_is_plain(each) for each in value)
    return value is None or isinstance(value, (str, bool, int, float, np.integer, np.floating))


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
