"""Short trainings whose temperature is looked at."""

from __future__ import annotations

import math

import torch
from torch import nn

import posterity as pt
from posterity.training import Settings, Training, plan

G = torch.Generator().manual_seed(0)
X = torch.randn(120, 3, generator=G)
REAL = X[:, :1].sin() + 0.3 * torch.randn(120, 1, generator=G)
CLASSES = (X[:, 0] > 0).long()


def training(y, *, outputs=None, posterior="mean_field", likelihood=None, **settings):
    outputs = outputs or (1 if y.is_floating_point() else 2)
    model = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, outputs))
    torch.manual_seed(0)
    net = pt.bayesian(model, posterior=posterior, seed=0)
    given = {"epochs": 6, "batch_size": 40, **settings}
    return Training(net, plan(net, (X, y), None, Settings.of(**given), likelihood=likelihood))


def steps(one, count=math.inf):
    """Go on for `count` steps, or to the end."""
    while not one.stopped and count > 0:
        for batch in one.batches:
            one.train_step(batch)
            count -= 1
            if count <= 0 and one.batches.position < one.batches.num_batches:
                return one
        one.end_epoch()
    return one
