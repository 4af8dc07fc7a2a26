"""Training and test data, side by side."""

from __future__ import annotations

from dataclasses import dataclass

from posterity.data.dataset import Dataset
from posterity.data.standardisation import Standardisation


@dataclass(frozen=True)
class Splits:
    """Training and test data, raw unless `standardised` made them."""

    train: Dataset
    test: Dataset

    def standardised(self) -> tuple[Splits, Standardisation]:
        """Both parts standardised with the statistics of the training part."""
        scale = Standardisation.of(self.train)
        return Splits(scale.apply(self.train), scale.apply(self.test)), scale
