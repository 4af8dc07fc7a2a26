"""What tests share: small networks and data, a runner of the command line, and a seed for each test."""

from __future__ import annotations

import inspect
import json
import math
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")  # also in the processes that tests start

import pytest
import torch
from torch import nn

import posterity as pt
from posterity import data
from posterity.cli.app import main
from posterity.core.errors import FetchError, UsageError
from posterity.data import DATASETS
from posterity.models import MODELS
from posterity.optim import OPTIMIZERS
from posterity.posteriors import POSTERIORS
from posterity.priors import KINDS, SHAPES
from posterity.storage import Checkpoints

torch.set_num_threads(1)  # a plugin of pytest may have loaded OpenMP before it could read the variable above

TINY = ("--dataset", "digits", "--model", "mlp", "--hidden", "16")


@dataclass
class Outcome:
    """What a command printed and returned."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


REGISTRIES = (DATASETS, MODELS, OPTIMIZERS, POSTERIORS, KINDS, SHAPES)


@pytest.fixture(autouse=True)
def _seeded() -> None:
    """No test depends on what was drawn by those before it."""
    torch.manual_seed(0)


@pytest.fixture(autouse=True)
def _own_names() -> Iterator[None]:
    """What a test registers by name is forgotten after it."""
    before = [(registry, dict(registry)) for registry in REGISTRIES]
    yield
    for registry, names in before:
        registry.clear()
        registry.update(names)


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Callable[..., Outcome]:
    """Run the command line in this process, in a directory of its own."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: object) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["posterity", *map(str, arguments)])
        monkeypatch.setattr("warnings.showwarning", None)  # put back afterwards: main replaces it
        capsys.readouterr()
        code = 0
        try:
            main()
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
        printed = capsys.readouterr()
        return Outcome(code, printed.out, printed.err)

    return run


@pytest.fixture
def train(cli: Callable[..., Outcome]) -> Callable[..., Outcome]:
    """`posterity train` of a tiny network on digits, quietly, for one epoch unless told otherwise."""

    def run(out: object, *options: object, epochs: int = 1) -> Outcome:
        return cli("train", *TINY, "--epochs", epochs, "--quiet", "--out", out, *options)

    return run


@pytest.fixture(scope="session")
def digits() -> data.Splits:
    """Digits, standardised."""
    return data.load("digits").standardised()[0]


@pytest.fixture(scope="session")
def fetched() -> Callable[[str], None]:
    """Sees to it that a data set is here; a test skips where it is out of reach."""

    def fetch(name: str) -> None:
        try:
            data.fetch(name, progress=False)
        except UsageError:  # it comes with the library
            pass
        except FetchError as error:
            pytest.skip(f"out of reach: {error}")

    return fetch


@pytest.fixture(scope="session")
def small(digits: data.Splits) -> data.Dataset:
    """The first 60 digits."""
    return digits.train.subset(torch.arange(60))


@pytest.fixture(scope="session")
def small_val(digits: data.Splits) -> data.Dataset:
    """The first 40 test digits."""
    return digits.test.subset(torch.arange(40))


def _module(
    inputs: int | tuple[int, ...] = 3,
    outputs: int = 2,
    *,
    width: int | None = 4,
    activation: type[nn.Module] = nn.Tanh,
    norm: bool = False,
    dropout: bool = False,
    dtype: torch.dtype = torch.float32,
    init: int = 0,
) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(init)
        if width is None:
            return nn.Linear(int(inputs), outputs).to(dtype)
        layers = [] if isinstance(inputs, int) else [nn.Flatten()]
        layers += [nn.Linear(inputs if isinstance(inputs, int) else math.prod(inputs), width)]
        layers += [nn.BatchNorm1d(width)] if norm else []
        layers += [activation()] + ([nn.Dropout(0.3)] if dropout else [])
        return nn.Sequential(*layers, nn.Linear(width, outputs)).to(dtype)


@pytest.fixture(scope="session")
def module() -> Callable[..., nn.Module]:
    """A small plain module whose weights depend on `init` alone: one hidden layer, or with `width` None a linear map.

    Its inputs are vectors, or images where `inputs` is a shape; `norm` and `dropout` add such layers.
    """
    return _module


@pytest.fixture(scope="session")
def network() -> Callable[..., pt.BayesianModule]:
    """Such a module made Bayesian: the keywords are those of `module` and of `pt.bayesian`."""
    architecture = inspect.signature(_module).parameters

    def build(*shape: Any, **options: Any) -> pt.BayesianModule:
        given = {name: options.pop(name) for name in architecture if name in options}
        start = {} if "relative_sd" in options else {"rho": -2.0}
        return pt.bayesian(_module(*shape, **given), **{**start, "seed": 1, **options})

    return build


@pytest.fixture(scope="session")
def make_net(network: Callable[..., pt.BayesianModule]) -> Callable[..., pt.BayesianModule]:
    """A tiny network for digits."""
    return partial(network, inputs=(1, 8, 8), outputs=10, width=8, activation=nn.ReLU, rho=-4.0, seed=0)


@pytest.fixture
def newest() -> Callable[[Path], dict[str, Any]]:
    """The state in a run's newest checkpoint."""

    def read(run: Path) -> dict[str, Any]:
        state = Checkpoints(run / "checkpoint").read_latest()
        assert state is not None
        return state

    return read


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, torch.Tensor):
        return isinstance(b, torch.Tensor) and a.dtype == b.dtype and torch.equal(a, b)
    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys() and all(_same(a[k], b[k]) for k in a)
    if isinstance(a, (list, tuple)):
        return type(a) is type(b) and len(a) == len(b) and all(map(_same, a, b))
    return bool(a == b)


@pytest.fixture
def same() -> Callable[[Any, Any], bool]:
    """Whether two nested states are equal to the last bit."""
    return _same


@pytest.fixture
def records() -> Callable[[Any], list[dict[str, Any]]]:
    """A history (or a history file) without the one thing that depends on the clock."""

    def clean(history: Any) -> list[dict[str, Any]]:
        if isinstance(history, Path):
            history = [json.loads(line) for line in history.read_text().splitlines()]
        return [{k: v for k, v in record.items() if k != "seconds"} for record in history]

    return clean


@pytest.fixture
def checkpoint_bytes() -> Callable[[Path], dict[str, bytes]]:
    """Every file below a run's newest checkpoint."""

    def read(run: Path) -> dict[str, bytes]:
        checkpoints = Checkpoints(run / "checkpoint")
        name = checkpoints.names()[-1]
        files = sorted((checkpoints.folder / name).iterdir())
        return {f"{name}/{file.name}": file.read_bytes() for file in files}

    return read
