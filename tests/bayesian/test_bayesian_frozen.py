"""Frozen parts stay frozen, and modules say which weights are Bayesian."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import posterity as pt
from posterity.core.errors import UsageError
from posterity.core.hosting import frozen_parts

X = torch.randn(60, 3, generator=torch.Generator().manual_seed(0)) + 2.0
Y = (X[:, 0] > 2).long()


class Net(nn.Module):
    """A body with a norm and dropout, and a head."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.5))
        self.norm = nn.BatchNorm1d(8, affine=False)
        self.head = nn.Linear(8, 2)

    def forward(self, x):
        return self.head(self.norm(self.body(x)))


def frozen_body():
    model = Net()
    model.body.requires_grad_(False)
    return model


def test_a_frozen_body_is_the_same_after_training(same):
    model = frozen_body()
    before = {name: value.clone() for name, value in model.body.state_dict().items()}
    net = pt.bayesian(model, select="head.*", seed=0)
    result = pt.fit(net, (X, Y), epochs=3, average="swa", average_start=0.0)
    for trained in (net, result.averaged):
        assert same(dict(trained.model.body.state_dict()), before)
    assert net.model.norm.running_mean.abs().sum() > 0  # not in the body: it is trained with


def test_a_body_that_is_trained_is_not_frozen():
    net = pt.bayesian(Net(), select="head.*", seed=0)
    before = net.model.body[1].running_mean.clone()
    pt.fit(net, (X, Y), epochs=1)
    assert not torch.equal(net.model.body[1].running_mean, before)


def test_modes_of_parts():
    net = pt.bayesian(frozen_body(), select="head.*", seed=0)
    modules = {name: module.training for name, module in net.model.named_modules() if name}
    assert {name for name, training in modules.items() if not training} == {
        "body", "body.0", "body.1", "body.2", "body.3"
    }  # fmt: skip
    net.eval()
    assert not any(module.training for module in net.modules())
    net.train()
    assert {name: module.training for name, module in net.model.named_modules() if name} == modules
    net.model.body.requires_grad_(True)
    assert all(module.training for module in net.train().modules())


def test_own_loops_leave_it_alone_as_well():
    net = pt.bayesian(frozen_body(), select="head.*", seed=0)
    before = net.model.body[1].running_mean.clone()
    pt.negative_elbo(net.train(), pt.Categorical(), X, Y, num_data=60).backward()
    assert torch.equal(net.model.body[1].running_mean, before)


def test_the_largest_frozen_parts_are_found():
    model = nn.Sequential(nn.Sequential(nn.Linear(2, 2), nn.ReLU()), nn.ReLU(), nn.Linear(2, 2))
    assert frozen_parts(model) == []
    model[0].requires_grad_(False)
    assert frozen_parts(model) == [model[0]]
    model[2].requires_grad_(False)
    assert frozen_parts(model) == [model]
    assert frozen_parts(model, [model[0][0]]) == [model[2]]
    assert frozen_parts(nn.ReLU()) == []


@pytest.mark.parametrize(
    "select",
    [
        lambda m: [m.head],
        lambda m: m.head,
        lambda m: (m.head,),
        lambda m: ["head.weight", m.head],
    ],
)
def test_modules_may_be_selected(select):
    model = Net()
    net = pt.bayesian(model, select=select(model), seed=0)
    assert net.layout.names == ["head.weight", "head.bias"]
    pt.fit(net, (X, Y), epochs=1)


def test_selected_containers_have_all_their_weights():
    model = frozen_body()
    names = pt.bayesian(model, select=[model.body], seed=0).layout.names
    assert names == ["body.0.weight", "body.0.bias", "body.1.weight", "body.1.bias"]


@pytest.mark.parametrize(
    ("select", "message"),
    [
        (lambda m: [nn.Linear(8, 2)], "no module of the network"),
        (lambda m: Net().head, "no module of the network"),
        (lambda m: [m.head.weight], "not a Parameter"),
        (lambda m: [m.body[2]], "no weight was selected"),
    ],
)
def test_what_cannot_be_selected_is_told(select, message):
    model = Net()
    with pytest.raises(UsageError, match=message):
        pt.bayesian(model, select=select(model))
