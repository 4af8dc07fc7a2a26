"""Data sets: what they are, where they come from, and how they are fed to a network."""

from posterity.data.augmentation import AUGMENTATIONS, Augmentation, check_augmentation
from posterity.data.batches import Batches
from posterity.data.columns import Columns
from posterity.data.dataset import Dataset, Task
from posterity.data.files import read_inputs, resolve_dataset
from posterity.data.registry import DatasetInfo, describe, fetch, is_seeded, load, load_test, names
from posterity.data.splits import Splits
from posterity.data.standardisation import Standardisation

__all__ = [
    "AUGMENTATIONS",
    "Augmentation",
    "Batches",
    "Columns",
    "Dataset",
    "DatasetInfo",
    "Splits",
    "Standardisation",
    "Task",
    "check_augmentation",
    "describe",
    "fetch",
    "is_seeded",
    "load",
    "load_test",
    "names",
    "read_inputs",
    "resolve_dataset",
]
