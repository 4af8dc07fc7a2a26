"""A conjugate linear model, whose posterior is known."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import posterity as pt
from posterity.data import Dataset
from posterity.training import Settings, Training, plan


class Conjugate:
    """y = x w + noise with a Gaussian prior; `exact` is its tempered posterior's mean and precision."""

    noise, prior_sd, num_data = 0.5, 0.8, 40

    def __init__(self) -> None:
        g = torch.Generator().manual_seed(0)
        x = torch.randn(self.num_data, 3, generator=g, dtype=torch.float64)
        x[:, 1] += 0.6 * x[:, 0]
        y = x @ torch.tensor([[1.0], [-2.0], [0.3]], dtype=torch.float64)
        y += self.noise * torch.randn(self.num_data, 1, generator=g, dtype=torch.float64)
        self.data = Dataset(x, y, "regression")

    def network(self, mean: float = 0.0, **options: Any) -> pt.BayesianModule:
        torch.manual_seed(0)
        prior, likelihood = pt.Gaussian(self.prior_sd, mean=mean), pt.GaussianNoise(self.noise)
        model = nn.Linear(3, 1, bias=False).double()
        return pt.bayesian(model, **{"prior": prior, "likelihood": likelihood, "rho": -2.0, "seed": 2, **options})

    def train(self, net: pt.BayesianModule, **settings: Any) -> Training:
        """As `fit` does, with a record of the last epoch alone: an epoch is one step."""
        values = Settings.of(batch_size=self.num_data, **settings)
        training = Training(net, plan(net, self.data, None, values))
        for _ in range(values.epochs):
            for index in training.batches:
                training.train_step(index)
        training.end_epoch()
        return training

    def exact(self, temperature: float = 1.0, prior_mean: float = 0.0) -> tuple[Tensor, Tensor]:
        x, y = self.data.x, self.data.y
        precision = x.T @ x / (temperature * self.noise**2) + torch.eye(3).double() / self.prior_sd**2
        right = x.T @ y / (temperature * self.noise**2) + prior_mean / self.prior_sd**2
        return torch.linalg.solve(precision, right).squeeze(-1), precision


@pytest.fixture
def conjugate() -> Conjugate:
    return Conjugate()
