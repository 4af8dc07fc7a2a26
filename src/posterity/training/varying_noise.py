"""Whether the noise of a regression varies with an input: noise that is learnt as one number does not say so.

Rows are taken in three parts by an input, from low to high (in fewer where values are the same), and the spread of
    z = (y - m) / (sd sqrt(1 - h))
is compared between them, m and sd the predictive's, h the leverage (training.leverage). Worth a word is a root mean
square of z that is RATIO times another part's, where Brown and Forsythe's test [1], an analysis of variance of
|z - median|, would find as much by chance in a share ODDS of regressions, whatever the number of their inputs.

Limits: two parts with the same |z - median| have p = 1; noise that grows with what is predicted is in sd already.

[1] Brown, Forsythe, Robust tests for the equality of variances, 1974.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import torch
from scipy import stats
from torch import Tensor

from posterity.core.precision import wide
from posterity.likelihoods import RealPrediction
from posterity.likelihoods.gaussian import MOST_LEVERAGE

RATIO = 2.0
ODDS = 1e-3
PARTS = 3
LEAST_ROWS = 20  # of a part
MOST_INPUTS = 100  # that are looked at: a table's


@torch.no_grad()
def varying_noise(
    prediction: RealPrediction, y: Tensor, leverages: Tensor, x: Tensor, names: Sequence[str] = ()
) -> list[str]:
    """A warning of the input with which the noise varies most, if it does; x (n, d) with `names` (d), y (n, k)."""
    z = wide((y - prediction.mean) / prediction.sd) / (1 - wide(leverages).clamp_max(MOST_LEVERAGE)).sqrt()
    tests = min(x.shape[1], MOST_INPUTS) * z.shape[1]
    found = []
    for column, target in product(range(min(x.shape[1], MOST_INPUTS)), z.T):
        each = parts(target, x[:, column])
        spreads = [part.square().mean().sqrt().item() for part in each]
        if len(each) > 1 and min(spreads) > 0 and max(spreads) >= RATIO * min(spreads):
            chance = stats.levene(*[part.cpu().numpy() for part in each], center="median").pvalue
            if chance * tests < ODDS:
                found.append((max(spreads) / min(spreads), column))
    if not found:
        return []
    ratio, column = max(found)
    name = f"'{names[column]}'" if len(names) == x.shape[1] else f"number {column + 1}"
    return [
        f"the noise varies with input {name} ({ratio:.2g} times as large at some values as at others), and one number "
        "was learnt for it: let the network say it, by --noise input, or GaussianNoise('input') and two outputs each"
    ]


def parts(z: Tensor, by: Tensor) -> list[Tensor]:
    """The values `z` (n,) of low, middle and high `by` (n,); parts of few rows are left out."""
    edges = torch.quantile(wide(by), torch.linspace(0, 1, PARTS + 1, dtype=wide(by).dtype, device=by.device)[1:-1])
    place = torch.bucketize(wide(by).contiguous(), edges)
    return [z[place == number] for number in range(PARTS) if (place == number).sum() >= LEAST_ROWS]
