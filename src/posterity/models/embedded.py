"""Embedded: a network for tables whose last columns are codes of categories, each replaced by a learnt vector.

    z = (x_1 ... x_m, E_1[c_1], ..., E_k[c_k]),    f(x, c) = model(z)

A code of K possible ones has a vector of ceil(K^(1/2)) numbers, at most MOST. Code 0 is an unknown category.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

MOST = 16  # numbers that stand for a category


class Embedded(nn.Module):
    """`build(features)` gives the network for what the rows become."""

    def __init__(self, features: int, codes: Sequence[int], build: Callable[[int], nn.Module]) -> None:
        """Rows have `features` numbers in all, of which the last are codes, each of so many as `codes` says."""
        super().__init__()
        widths = [min(MOST, math.ceil(math.sqrt(count))) for count in codes]
        self.numbers = features - len(codes)
        self.embeddings = nn.ModuleList(nn.Embedding(c, w) for c, w in zip(codes, widths, strict=True))
        self.model = build(self.numbers + sum(widths))

    def forward(self, x: Tensor) -> Tensor:
        """Outputs (n, K) for rows (n, features); a code out of range counts as the nearest."""
        numbers, codes = x[:, : self.numbers], x[:, self.numbers :].round().long()
        vectors = [e(codes[:, j].clamp(0, e.num_embeddings - 1)) for j, e in enumerate(self.embeddings)]  # type: ignore[operator, arg-type]
        outputs: Tensor = self.model(torch.cat([numbers, *vectors], 1))
        return outputs
