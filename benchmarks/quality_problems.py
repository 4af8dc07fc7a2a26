"""The problems of posterior_quality.py: small enough for NUTS, with inputs away from the data.

gap        y = sin(4 x) + 0.3 x + 0.1 e, no inputs in the middle; a 1-50-1 tanh network, the noise known
two-moons  100 points of two half circles; a 2-16-2 tanh network

Every network has the library's default prior, N(0, 2 / n_in). `data` are held-out inputs from where the training data
are, `away` are inputs where there were none, `curve` is for the figure.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

import posterity as pt
from posterity.data.synthetic import GAP, GAP_NOISE, gap, two_moons
from posterity.models import mlp

NUM_MOONS = 100
CURVE = (-2.6, 2.6)


@dataclass(frozen=True)
class Problem:
    """Data, network and the inputs at which predictives are compared."""

    name: str
    hidden: tuple[int, ...]
    noise: float | None  # the known sd of the targets; None for classes
    train: pt.Dataset
    test: pt.Dataset
    away: Tensor
    curve: Tensor

    @property
    def inputs(self) -> dict[str, Tensor]:
        """Where to predict, by name."""
        return {"data": self.test.x, "away": self.away, "curve": self.curve}

    def network(self, seed: int, *, dtype: torch.dtype = torch.float32, **settings: object) -> pt.BayesianModule:
        """A fresh Bayesian network; `settings` are those of `bayesian`."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            model = mlp(self.train.input_shape, self.train.num_outputs, hidden=self.hidden, activation="tanh")
        likelihood = pt.Categorical() if self.noise is None else pt.GaussianNoise(self.noise)
        return pt.bayesian(model.to(dtype), likelihood=likelihood, seed=seed, **settings)  # type: ignore[arg-type]


def gap_problem() -> Problem:
    """Regression; `away` is the gap's inside."""
    splits = gap(0)
    inside = torch.linspace(*GAP, 32)[1:-1, None]
    return Problem("gap", (50,), GAP_NOISE, splits.train, splits.test, inside, torch.linspace(*CURVE, 131)[:, None])


def moons_problem() -> Problem:
    """Classification; `away` is a grid around the moons, at least 0.5 from any training input."""
    splits = two_moons(0)
    train = pt.Dataset(splits.train.x[:NUM_MOONS], splits.train.y[:NUM_MOONS], "classification", 2, "two-moons")
    grid = torch.cartesian_prod(torch.linspace(-3, 4, 24), torch.linspace(-2.5, 3, 24))
    away = grid[torch.cdist(grid, train.x).amin(1) > 0.5]
    return Problem("two-moons", (16,), None, train, splits.test, away, grid)


PROBLEMS = {"gap": gap_problem, "two-moons": moons_problem}
