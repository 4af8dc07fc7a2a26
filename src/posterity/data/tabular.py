"""Small real data that come with scikit-learn: handwritten digits and the progression of diabetes."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from posterity.data.dataset import Dataset
from posterity.data.entry import Entry
from posterity.data.splits import Splits

_TEST_FRACTION = 0.2
_SPLIT_SEED = 0  # the test set is the same for everyone, whatever the seed of a run


def digits() -> Splits:
    """1797 digits as (1, 8, 8) images with values 0..16, 10 classes; split 80/20 within classes."""
    from sklearn.datasets import load_digits  # here, as it takes a second that other data sets need not wait
    from sklearn.model_selection import train_test_split

    source = load_digits()
    parts = train_test_split(
        source.images[:, None],
        source.target,
        test_size=_TEST_FRACTION,
        random_state=_SPLIT_SEED,
        stratify=source.target,
    )
    return _splits(parts, "digits", 10)


def diabetes() -> Splits:
    """442 patients, 10 features, one score of progression to regress on; split 80/20."""
    from sklearn.datasets import load_diabetes
    from sklearn.model_selection import train_test_split

    x, y = load_diabetes(return_X_y=True, scaled=False)
    parts = train_test_split(x, y, test_size=_TEST_FRACTION, random_state=_SPLIT_SEED)
    return _splits(parts, "diabetes", None)


def _splits(parts: list[NDArray[np.generic]], name: str, num_classes: int | None) -> Splits:
    x_train, x_test, y_train, y_test = parts
    train = Dataset.from_arrays(x_train, y_train, num_classes=num_classes, name=name)
    test = Dataset.from_arrays(x_test, y_test, num_classes=num_classes, name=name)
    return Splits(train.to(torch.float32), test.to(torch.float32))  # a few digits each, which float32 holds


DATASETS = {
    "digits": Entry(task="classification", shape=(1, 8, 8), num_train=1437, num_test=360, num_classes=10, load=digits),
    "diabetes": Entry(task="regression", shape=(10,), num_train=353, num_test=89, load=diabetes),
}
