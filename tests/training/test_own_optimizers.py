"""An optimiser that nobody registered: its class, or a function of parameter groups."""

import functools

import pytest
import torch
from torch import nn

import posterity as pt
from posterity.core.errors import UnknownNameError, UsageError
from posterity.training import Callback, Settings


def problem(seed=0):
    torch.manual_seed(seed)
    x = torch.randn(40, 3)
    return pt.bayesian(nn.Linear(3, 2), seed=seed), (x, (x[:, 0] > 0).long())


def halves(groups):
    """A factory with its own mind about everything but the rate of a group."""
    return torch.optim.RMSprop(groups, lr=0.01, alpha=0.5)


class Signed(torch.optim.Optimizer):
    """Steps by the sign of the average gradient."""

    def __init__(self, params, lr=0.02, beta=0.5):
        super().__init__(params, {"lr": lr, "beta": beta})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                average = self.state[p].setdefault("average", torch.zeros_like(p))
                average.lerp_(p.grad, 1 - group["beta"])
                p.sub_(group["lr"] * average.sign())


GIVEN = {
    "class": torch.optim.NAdam,
    "partial": functools.partial(torch.optim.SGD, momentum=0.9, nesterov=True, lr=0.05),
    "function": halves,
    "own": functools.partial(Signed, beta=0.7),
}


class Kill(Callback):
    kept = False

    def on_epoch(self, training, record):
        if record["epoch"] == 2:
            raise KeyboardInterrupt


@pytest.mark.parametrize("kind", GIVEN)
def test_trains_and_resumes_exactly(kind, tmp_path):
    settings = {"epochs": 5, "batch_size": 10, "optimizer": GIVEN[kind]}
    net, data = problem()
    whole = pt.fit(net, data, **settings)
    assert whole.history[-1]["nll"] < whole.history[0]["nll"]
    again, _ = problem()
    with pytest.raises(KeyboardInterrupt):
        pt.fit(again, data, out=tmp_path, checkpoint_seconds=0, callbacks=[Kill()], **settings)
    again, _ = problem()
    resumed = pt.fit(again, data, out=tmp_path, resume=True, **settings)
    assert resumed.history[-1]["nll"] == whole.history[-1]["nll"]
    assert torch.equal(net.posterior.mean, again.posterior.mean)
    assert torch.equal(net.posterior.sd, again.posterior.sd)


def test_is_plain_values_in_the_settings():
    settings = Settings.of(optimizer=GIVEN["partial"], optimizer_options={"dampening": 0.0})
    assert settings.optimizer == "torch.optim:SGD"
    assert settings.lr == 0.05
    assert settings.optimizer_options == {"momentum": 0.9, "nesterov": True, "dampening": 0.0}
    assert Settings.of(**settings.as_dict()) == settings
    assert Settings.of(optimizer=halves).optimizer == f"{__name__}:halves"
    assert Settings.of(optimizer="torch.optim:NAdam") == Settings.of(optimizer=torch.optim.NAdam)


def test_rates_are_those_of_named_ones():
    from posterity.training import plan

    def rates(**settings):
        net, data = problem()
        return {group.name: group.base_lr for group in plan(net, data, None, Settings.of(**settings)).groups}

    assert rates(optimizer=torch.optim.NAdam) == {"mean": 2e-3, "sd": 0.1}
    assert rates(optimizer=torch.optim.NAdam, lr=0.3, lr_ratio=0.5) == {"mean": 0.3, "sd": 0.15}
    assert rates(optimizer=halves) == {"mean": 0.01, "sd": 0.1}
    assert rates(optimizer=halves, lr=0.2) == {"mean": 0.2, "sd": 0.1}
    assert rates(optimizer_sd=functools.partial(torch.optim.SGD, lr=0.4))["sd"] == 0.4
    with pytest.raises(UsageError, match="give lr, too"):
        rates(optimizer=halves, lr_ratio=0.5)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (torch.optim.NAdam([torch.zeros(1)]), "give its class, NAdam"),
        (torch.optim.LBFGS, "evaluates the loss itself"),
        (lambda groups: groups, r"must make a torch.optim.Optimizer .* not list"),
        (functools.partial(torch.optim.SGD, [1]), "given by name"),
        (functools.partial(torch.optim.SGD, momentun=0.9), r"Did you mean 'momentum'"),
        ("torch.optim:NAdamm", "unknown optimizer"),
        ("os:system", "unknown optimizer"),
    ],
)
def test_refusals(given, words):
    net, data = problem()
    before = net.posterior.mean.clone()
    with pytest.raises(UsageError, match=words):
        pt.fit(net, data, epochs=1, optimizer=given)
    assert torch.equal(net.posterior.mean, before)


def test_what_is_said_twice_is_refused():
    with pytest.raises(UsageError, match="optimizer says lr itself"):
        Settings.of(optimizer=GIVEN["partial"], lr=0.1)


def test_a_registered_one_is_known_by_its_name():
    pt.register_optimizer("signed", Signed)
    assert Settings.of(optimizer="signed").optimizer == "signed"
    with pytest.raises(UnknownNameError, match="Did you mean 'signed'"):
        Settings.of(optimizer="signd")
    with pytest.raises(UsageError, match="library's own"):
        pt.register_optimizer("adam", Signed)
