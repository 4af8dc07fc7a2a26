"""Training and test data, side by side."""

from __future__ import annotations

from dataclasses import dataclass

from posterity.data.dataset import Dataset
from posterity.data.standardisation import Standardisation


@dataclass(frozen=True)
class Splits:
    """Training and test data; where `raw`, the values are the point, and a run does not standardise them."""

    train: Dataset
    test: Dataset
    raw: bool = False

    def standardised(self) -> tuple[Splits, Standardisation]:
        """Both parts standardised with the statistics of the training part."""
        scale = Standardisation.of(self.train)
        return Splits(scale.apply(self.train), scale.apply(self.test)), scale
