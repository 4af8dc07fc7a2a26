"""Data sets: what they are, where they come from, and how they are fed to a network."""

from posterity.data.batches import Batches
from posterity.data.dataset import Dataset, Splits, Standardisation, Task
from posterity.data.files import read_columns, read_inputs
from posterity.data.registry import DatasetInfo, describe, fetch, load, load_test, names

__all__ = [
    "Batches",
    "Dataset",
    "DatasetInfo",
    "Splits",
    "Standardisation",
    "Task",
    "describe",
    "fetch",
    "load",
    "load_test",
    "names",
    "read_columns",
    "read_inputs",
]
