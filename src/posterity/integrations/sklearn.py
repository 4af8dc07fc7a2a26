"""BayesianClassifier and BayesianRegressor: Bayesian networks as scikit-learn estimators.

Their parameters are the fields of a run (integrations.parameters). `partial_fit` goes on from the posterior so far;
columns, standardisation and classes stay those of its first call.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from torch import Tensor
from typing_extensions import Self

from posterity.core.errors import DataError
from posterity.data import Task
from posterity.data.columns import listed
from posterity.integrations.estimator import Array, Estimator
from posterity.integrations.parameters import with_parameters
from posterity.likelihoods.prediction import DEFAULT_LEVEL


@with_parameters(without=["noise"])
class BayesianClassifier(ClassifierMixin, Estimator):  # type: ignore[misc]
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
            raise DataError(f"all labels are of one class, '{self.classes_[0]}'; a classifier needs two at least.")
        places = np.searchsorted(self.classes_, y).clip(max=len(self.classes_) - 1)
        strange = np.unique(y[self.classes_[places] != y])
        if len(strange):
            known = listed([str(each) for each in self.classes_])
            raise DataError(f"the label '{strange[0]}' is none of the classes of the first call: {known}.")
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
class BayesianRegressor(RegressorMixin, Estimator):  # type: ignore[misc]
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
