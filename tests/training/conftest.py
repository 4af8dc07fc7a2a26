"""A small regression for the tests of training, and a training that breaks off."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import posterity as pt
from posterity.data import Dataset


@pytest.fixture(scope="session")
def curve() -> Dataset:
    """40 points of a sine."""
    x = torch.linspace(-1, 1, 40).unsqueeze(1)
    return Dataset(x, torch.sin(3 * x), "regression")


@pytest.fixture
def curve_net() -> Callable[..., pt.BayesianModule]:
    """A network of 25 weights for it."""

    def make(**options: Any) -> pt.BayesianModule:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            model = nn.Sequential(nn.Linear(1, 8), nn.Tanh(), nn.Linear(8, 1))
            return pt.bayesian(model, **{"rho": -4.0, "seed": 0, **options})

    return make


class Cut(pt.Callback):
    """Ends the process's work, as a crash would, before step `at` or at the end of epoch `epoch`."""

    kept = False

    def __init__(self, at: int | None = None, epoch: int | None = None) -> None:
        self.at, self.epoch = at, epoch

    def on_step(self, training: Any, loss: Any) -> None:
        if training.step == self.at:
            raise KeyboardInterrupt

    def on_epoch(self, training: Any, record: dict[str, Any]) -> None:
        if record["epoch"] == self.epoch:
            raise KeyboardInterrupt


@pytest.fixture
def broken_off() -> Callable[..., None]:
    """`fit` that is cut off before step `at`, or at the end of epoch `epoch`."""

    def run(
        net: pt.BayesianModule, *data: Any, out: Path, at: int | None = None, epoch: int | None = None, **options: Any
    ) -> None:
        options.setdefault("checkpoint_seconds", 0)
        with pytest.raises(KeyboardInterrupt):
            pt.fit(net, *data, out=out, callbacks=[Cut(at, epoch)], **options)

    return run


@pytest.fixture
def check_resumption(
    broken_off: Callable[..., None], same: Callable[[Any, Any], bool], records: Callable[[Any], Any]
) -> Callable[..., pt.training.FitResult]:
    """Cut off before step `at` and resumed, a training of `make()` ends with the same bits and the same history."""

    def check(make: Callable[[], pt.BayesianModule], data: Any, at: int, out: Path, **settings: Any) -> Any:
        settings = {"checkpoint_seconds": 0, **settings}
        whole = pt.fit(make(), data, **settings)
        broken_off(make(), data, out=out, at=at, **settings)
        resumed = pt.fit(make(), data, out=out, resume=True, **settings)
        assert same(dict(resumed.net.state_dict()), dict(whole.net.state_dict()))
        assert records(resumed.history) == records(whole.history) == records(out / "history.jsonl")
        if whole.averaged is not None:
            assert same(dict(resumed.averaged.state_dict()), dict(whole.averaged.state_dict()))
        return whole

    return check
