"""Every optimiser on plain parameters: those registered, ours and PyTorch's, and IVON and Langevin's."""

import pytest
import torch
from torch import nn

from posterity.optim import IVON, OPTIMIZERS, SGLD, Recipe, build_optimizer, construct

# IVON and Langevin dynamics are methods of training, not optimisers by name, but optimisers all the same.
METHODS = {
    "ivon": Recipe(IVON, 0.1, needs=("ess",)),
    "sgld": Recipe(SGLD, 0.1, needs=("num_data",)),
    "psgld": Recipe(SGLD, 0.05, {"preconditioned": True}, needs=("num_data",)),
}
RECIPES = {**OPTIMIZERS, **METHODS}
NEEDS = {"batch_size": 1, "ess": 1e6, "num_data": 1.0}
RATES = {"adagrad": 0.5, "radam": 0.05, "yellowfin": 4.0, "sgd": 0.01, "adabayes": 0.05}
OURS = {"adabound": 2, "amsbound": 3, "yellowfin": 2, "adabayes": 2, "adabayes-fp": 2, "ivon": 2, "sgld": 0, "psgld": 1}
NOISY = ("sgld", "psgld", "ivon")

EVERY = pytest.mark.parametrize("name", RECIPES)
EACH_OF_OURS = pytest.mark.parametrize("name", OURS)
CURVATURE = torch.tensor([1.0, 3.0, 0.3, 2.0])
TARGET = torch.tensor([1.0, -2.0, 0.5, 0.0])


def problem(dtype=torch.float32):
    return nn.Parameter(torch.tensor([3.0, 1.0, -1.0, 2.0], dtype=dtype))


def value(w):
    return (CURVATURE.to(w) * (w - TARGET.to(w)).square()).sum()


def build(name, w, **settings):
    recipe = RECIPES[name]
    given = {**{key: NEEDS[key] for key in recipe.needs}, **settings}
    lr = given.pop("lr", METHODS[name].lr if name in METHODS else RATES.get(name, 0.02))
    groups = w if isinstance(w, list) else [{"params": [w]}]
    if name in OPTIMIZERS:
        return build_optimizer(name, groups, lr=lr, **given)
    return construct(name, recipe.make, groups, lr=lr, settings={**recipe.settings, **given})


def cold(name):
    return {"temperature": 0.0} if name in ("sgld", "psgld") else {}


def step(optimizer, w, sign=1.0):
    """With a closure, which is how all of them, IVON too, take a plain step."""

    def closure():
        optimizer.zero_grad()
        loss = sign * value(w)
        loss.backward()
        return loss

    return optimizer.step(closure)


def run(optimizer, w, steps):
    for _ in range(steps):
        step(optimizer, w)
