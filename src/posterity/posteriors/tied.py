"""Tied: independent Gaussians whose sd is one for all weights, or one for each layer (source 003's q).

    q = N(mean, diag(sd_b(i)^2)),    sd_b = softplus(rho_b),    b(i) the block of consecutive weights that holds i
    dL/drho_b = sum over i in b of dL/drho_i,    the last as mean-field has it

One block is source 003's N(mean, sd^2 I), with N + 1 numbers to train where mean-field has 2 N. Starting from, or set
to, sds that differ within a block it takes their root mean square, with which the block's total variance is the same.

Limits: as many blocks as weights give mean-field; rho -> -inf gives the point posterior.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from posterity.core.errors import UsageError, unknown_name
from posterity.core.scale import rho_of
from posterity.posteriors.independent import IndependentGaussian

ALL, LAYER = "all", "layer"
SHARES = (ALL, LAYER)


class Tied(IndependentGaussian):
    """Means (N,) and a free scale parameter for each block, `rho` (B,); `sizes` are the blocks', by default one."""

    kind = "tied"

    def __init__(self, mean: Tensor, rho: Tensor, sizes: Sequence[int] | None = None) -> None:
        super().__init__()
        self.sizes = [mean.numel()] if sizes is None else list(sizes)
        if mean.dim() != 1 or rho.shape != (len(self.sizes),) or sum(self.sizes) != len(mean):
            raise UsageError(
                "mean and rho must have shapes (N,) and (B,), and the sizes of the B blocks the sum N; they have "
                f"{tuple(mean.shape)} and {tuple(rho.shape)}, the sizes are {self.sizes}"
            )
        self.mean = nn.Parameter(mean.detach().clone())
        self.rho = nn.Parameter(rho.detach().clone())

    @classmethod
    def _start(cls, mean: Tensor, sd: Tensor, *, layers: Sequence[int], seed: int, share: str = ALL) -> Tied:
        if share not in SHARES:
            raise unknown_name("share (what has one sd)", share, SHARES)
        sizes = list(layers) if share == LAYER else [len(mean)]
        return cls(mean, rho_of(_pooled(sd, sizes)).to(mean), sizes)

    @property
    def sd(self) -> Tensor:
        """softplus(rho) of its block for each weight (N,)."""
        return torch.cat([sd.expand(size) for sd, size in zip(F.softplus(self.rho), self.sizes, strict=True)])

    @torch.no_grad()
    def set_sd(self, sd: Tensor) -> None:
        """The root mean square over each block."""
        self.rho.copy_(rho_of(_pooled(sd, self.sizes)))

    def weight_index(self, parameter: Tensor, index: int) -> int:
        """Of rho, the first weight of the block."""
        return sum(self.sizes[:index]) if parameter is self.rho else index

    @classmethod
    def empty(cls, num_weights: int, *, sizes: Sequence[int] | None = None, **options: Any) -> Tied:
        """Zeros, to be loaded."""
        return cls(torch.zeros(num_weights), torch.zeros(1 if sizes is None else len(sizes)), sizes)

    def options(self) -> dict[str, Any]:
        """The blocks' sizes."""
        return {"sizes": self.sizes}


def _pooled(sd: Tensor, sizes: Sequence[int]) -> Tensor:
    """The root mean square (B,) over each block, in double precision."""
    return torch.stack([part.square().mean().sqrt() for part in sd.double().split(list(sizes))])
