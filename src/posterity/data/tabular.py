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

    source = load_digits()
    x, y = source.images[:, None].astype(np.float32), source.target
    return _split(Dataset.from_arrays(x, y, num_classes=10, name="digits"), stratify=y)


def diabetes() -> Splits:
    """442 patients, 10 features, one score of progression to regress on; split 80/20."""
    from sklearn.datasets import load_diabetes

    x, y = load_diabetes(return_X_y=True, scaled=False)  # a few digits each, which float32 holds
    return _split(Dataset.from_arrays(x.astype(np.float32), y.astype(np.float32), name="diabetes"))


def _split(whole: Dataset, stratify: NDArray[np.generic] | None = None) -> Splits:
    from sklearn.model_selection import train_test_split

    options = {"test_size": _TEST_FRACTION, "random_state": _SPLIT_SEED, "stratify": stratify}
    train, test = train_test_split(np.arange(len(whole)), **options)
    return Splits(whole.subset(torch.from_numpy(train)), whole.subset(torch.from_numpy(test)))


DATASETS = {
    "digits": Entry(task="classification", shape=(1, 8, 8), num_train=1437, num_test=360, num_classes=10, load=digits),
    "diabetes": Entry(task="regression", shape=(10,), num_train=353, num_test=89, load=diabetes),
}
