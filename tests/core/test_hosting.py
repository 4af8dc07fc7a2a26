"""Hosts: private copies share what is only read, and nothing that a pass may change."""

import functools
import threading
from collections import namedtuple

import pytest
import torch
from torch import nn

from posterity.core.hosting import Host

Pair = namedtuple("Pair", ["first", "rest"])


class Config(dict):
    __getattr__ = dict.__getitem__


class Everything(nn.Module):
    """Modules, tensors and state in every place where a module may have them."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(3, 3)
        self.again = self.first
        self.norm = nn.BatchNorm1d(3)
        self.head = nn.Linear(3, 2)
        self.listed = [self.first, (self.norm, {"head": self.head})]
        self.pair = Pair(self.first, self.listed)
        self.held = {self.head}
        self.config = Config(width=3, head=self.head)
        self.activation = self.squash
        self.partial = functools.partial(self.scale, factor=2.0)
        self.size = torch.Size([3])
        self.log, self.calls = [], 0
        self.plain = torch.zeros(1)
        self.register_buffer("count", torch.zeros(1))
        self.head.register_buffer("same", self.count)
        self.__dict__["parent"] = self  # a cycle

    def squash(self, x):
        return torch.tanh(self.norm(x))

    def scale(self, x, factor):
        return self.config.head(x) * factor

    def forward(self, x):
        self.calls += 1
        self.plain += 1
        self.count += 1
        self.log.append(x)
        return self.partial(self.activation(self.listed[0](self.again(x))))


def hosted(names=("first.weight", "head.weight")):
    torch.manual_seed(0)
    model = Everything()
    parameters = dict(model.named_parameters())
    return Host.of(model, names), {name: parameters[name].detach() for name in names}


def test_a_pass_of_a_private_copy_is_the_networks():
    host, views = hosted()
    private, x = host.private(), torch.randn(4, 3)
    host.model.eval()
    assert torch.equal(private.call(views, x), host.call(views, x))


def test_what_is_shared_and_what_is_not():
    host, _ = hosted()
    ours, theirs = host.model, host.private().model
    assert type(theirs) is Everything
    assert theirs is not ours
    assert theirs.head.bias is ours.head.bias
    assert theirs.head.weight is None
    assert theirs.count is theirs.head.same
    assert theirs.count is not ours.count
    assert theirs.norm.running_mean is not ours.norm.running_mean


def test_modules_are_mapped_wherever_they_are():
    host, _ = hosted()
    model = host.private().model
    assert model.again is model.first is model.listed[0] is model.pair.first
    assert model.pair.rest is model.listed
    assert model.listed[1][0] is model.norm
    assert model.listed[1][1]["head"] is model.head is model.config.head
    assert model.held == {model.head}
    assert model.parent is model
    assert model.activation.__self__ is model.partial.func.__self__ is model
    assert (type(model.pair), type(model.config), type(model.size)) == (Pair, Config, torch.Size)
    assert model.config.width == 3
    inside = set(model.modules())
    assert not inside & set(host.model.modules())


def test_a_private_pass_leaves_no_trace():
    host, views = hosted()
    model = host.model
    kept = {name: value.clone() for name, value in model.state_dict().items()}
    model.first.eval()
    modes = [m.training for m in model.modules()]
    private = host.private()
    for _ in range(3):
        private.call(views, torch.randn(4, 3))
    assert private.model.calls == len(private.model.log) == 3
    assert private.model.count.item() == private.model.plain.item() == 3
    assert (model.calls, model.log, model.plain.item()) == (0, [], 0)
    assert all(torch.equal(kept[name], value) for name, value in model.state_dict().items())
    assert [m.training for m in model.modules()] == modes
    assert not any(m.training for m in private.model.modules())
    assert all(m._parameters[a] is None for places in host.places.values() for m, a in places)


def test_a_copy_may_be_taken_within_a_pass():
    host, views = hosted()
    model, x = host.model, torch.randn(4, 3)
    found = []

    def look(module, inputs):
        if not found:
            found.append(host.private())
            found.append(found[0].call(views, x))

    model.eval().head.register_forward_pre_hook(look)
    expected = host.call(views, x)
    assert torch.equal(found[1], expected)
    assert found[0].model.head.weight is None


def test_hooks_are_kept():
    host, views = hosted()
    seen = []
    host.model.head.register_forward_hook(lambda module, inputs, output: seen.append(module) or output + 1)
    private = host.private()
    private.call(views, torch.randn(4, 3))
    assert seen == [private.model.head]


def test_recurrent_modules_use_their_own_weights():
    host = Host.of(nn.LSTM(3, 2), ["weight_ih_l0", "bias_hh_l0"])
    views = {"weight_ih_l0": torch.randn(8, 3), "bias_hh_l0": torch.randn(8)}
    x = torch.randn(4, 3)
    with host.filled(views):
        private = host.private()
        assert private.model._flat_weights[0] is None
        expected = host.model(x)[0]
    assert torch.equal(private.call(views, x)[0], expected)
    assert private.model._flat_weights[1] is host.model.weight_hh_l0


def test_a_module_outside_the_tree_keeps_its_mode():
    model = nn.Sequential(nn.Linear(3, 2))
    model.teacher = [nn.Dropout(0.5)]
    private = Host.of(model, ["0.weight"]).private()
    assert private.model.teacher[0] is not model.teacher[0]
    assert private.model.teacher[0].training


def test_a_rescaling_embedding_has_rows_of_its_own():
    model = nn.Sequential(nn.Embedding(4, 3, max_norm=0.1), nn.Linear(3, 2))
    before = model[0].weight.detach().clone()
    host = Host.of(model, ["1.weight"])
    with torch.no_grad():
        host.private().call({"1.weight": torch.randn(2, 3)}, torch.arange(4))
    assert torch.equal(model[0].weight, before)


def test_left_overs_of_a_vmap_do_not_hinder():
    model = nn.Sequential(nn.Linear(3, 2))

    def leave(x):
        model.left = x * 1
        return x

    torch.vmap(leave)(torch.ones(2, 3))
    host = Host.of(model, ["0.weight"])
    assert host.private().call({"0.weight": torch.ones(2, 3)}, torch.ones(1, 3)).shape == (1, 2)


@pytest.mark.parametrize("thread", range(2))
def test_copies_while_another_thread_fills(thread):
    host, views = hosted()
    host.model.eval()
    x = torch.randn(4, 3)
    expected, stop, failed = host.call(views, x), threading.Event(), []
    other = {name: view + 1 for name, view in views.items()}

    def fill():
        while not stop.is_set():
            host.call(other, x)

    worker = threading.Thread(target=fill)
    worker.start()
    try:
        for _ in range(200):
            private = host.private()
            if not torch.equal(private.call(views, x), expected):
                failed.append(1)
    finally:
        stop.set()
        worker.join()
    assert not failed
