"""Data sets: what they are, where they come from, and how they are fed to a network."""

from posterity.data.augmentation import AUGMENTATIONS, Augmentation, check_augmentation
from posterity.data.batches import Batches
from posterity.data.columns import Columns
from posterity.data.dataset import Batch, Dataset, Task
from posterity.data.feeds import FedBatches, Feed, MemoryFeed
from posterity.data.files import read_dataset, read_inputs, resolve_dataset
from posterity.data.loading import LoaderData, LoaderFeed
from posterity.data.registry import DATASETS, DatasetInfo, describe, fetch, is_here, is_seeded, load, load_test, names
from posterity.data.splits import Splits
from posterity.data.standardisation import Standardisation

__all__ = [
    "AUGMENTATIONS",
    "DATASETS",
    "Augmentation",
    "Batch",
    "Batches",
    "Columns",
    "Dataset",
    "DatasetInfo",
    "FedBatches",
    "Feed",
    "LoaderData",
    "LoaderFeed",
    "MemoryFeed",
    "Splits",
    "Standardisation",
    "Task",
    "check_augmentation",
    "describe",
    "fetch",
    "is_here",
    "is_seeded",
    "load",
    "load_test",
    "names",
    "read_dataset",
    "read_inputs",
    "resolve_dataset",
]
