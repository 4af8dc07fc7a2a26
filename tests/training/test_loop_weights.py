"""Weights that a step has made NaN are named by their layer, whatever the posterior shares between weights."""

import pytest
import torch
from torch import nn

import posterity as pt
from posterity.core.errors import NonFiniteError
from posterity.training import Settings, Training, plan


def test_a_tied_sd_that_is_nan_is_named_by_its_own_layer():
    net = pt.bayesian(nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 1)), posterior="tied", share="layer")
    x = torch.randn(10, 3)
    training = Training(net, plan(net, (x, x.sum(1)), None, Settings(epochs=1)))
    with torch.no_grad():
        net.posterior.rho[1] = torch.nan
    with pytest.raises(NonFiniteError, match=r"made weights of 1\.weight NaN"):
        training.check_weights()
