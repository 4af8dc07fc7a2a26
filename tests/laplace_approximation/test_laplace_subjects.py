"""Which networks and data Laplace's approximation takes, and which it refuses."""

import pytest
import torch
from torch import nn

import posterity as pt
from posterity.core.errors import UsageError


@pytest.mark.parametrize("structure", ["last_layer", "diagonal"])
def test_frozen_layers_before_the_last_one(structure):
    torch.manual_seed(0)
    x, y = torch.randn(30, 3), torch.arange(30) % 2
    model = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 2))
    whole = pt.laplace(model, (x, y), structure=structure, prior=1.0, temperature=1.0, seed=0)
    model[0].requires_grad_(False)
    found = pt.laplace(model, (x, y), structure=structure, prior=1.0, temperature=1.0, seed=0)
    assert found.layout.names == ["2.weight", "2.bias"]
    torch.testing.assert_close(found.posterior.sd, whole.posterior.sd[-12:])


def test_what_it_does_not_know_is_refused():
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.last = nn.Linear(2, 2)

        def forward(self, a, b):
            return self.last(a + b)

    x, y = torch.randn(10, 2), torch.arange(10) % 2
    with pytest.raises(UsageError, match="one input"):
        pt.laplace(Two(), ((x, x), y))
    weighted = pt.Dataset.from_arrays(x, y, weight=torch.full((10,), 2.0))
    with pytest.raises(UsageError, match="weights of rows"):
        pt.laplace(nn.Linear(2, 2), weighted)
