"""TensorBoard has the numbers of the history, each once, also after a resumption."""

import sys

import pytest
import torch
from torch import nn

import posterity as pt
from posterity.experiments import Record

X = torch.randn(40, 3, generator=torch.Generator().manual_seed(0))
Y = X.sum(1, keepdim=True)


@pytest.fixture
def scalars():
    """What TensorBoard shows of a folder: values by step, by name."""
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")

    def read(folder):
        events = accumulator.EventAccumulator(str(folder)).Reload()
        return {name: [(e.step, e.value) for e in events.Scalars(name)] for name in events.Tags()["scalars"]}

    return read


def network(seed=0):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return pt.bayesian(nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)), seed=seed)


class Stop(pt.Callback):
    """A crash at the end of an epoch."""

    kept = False

    def on_epoch(self, training, record):
        if record["epoch"] == 3:
            raise KeyboardInterrupt


def expected(history, name):
    return [(r["step"], pytest.approx(r[name], rel=1e-6)) for r in history]


def test_has_the_history_once_also_when_part_of_it_is_done_again(tmp_path, scalars):
    given = {"epochs": 5, "batch_size": 20, "out": tmp_path / "run", "checkpoint_seconds": 1000}
    board = tmp_path / "board"
    with pytest.raises(KeyboardInterrupt):
        pt.fit(network(), (X, Y), (X, Y), callbacks=[pt.TensorBoard(board), Stop()], **given)
    assert len(scalars(board)["nll"]) == 3
    result = pt.fit(network(), (X, Y), (X, Y), callbacks=[pt.TensorBoard(board)], resume=True, **given)
    found = scalars(board)
    for name in ("loss", "nll", "kl", "rmse", "val_nll", "val_rmse", "temperature", "noise", "lr"):
        assert found[name] == expected(result.history, name), name
    rates = [(r["step"], pytest.approx(r["groups"]["sd"]["lr"], rel=1e-6)) for r in result.history]
    assert found["groups/sd.lr"] == rates
    assert {f"kl_by_layer/{layer}" for layer in result.history[0]["kl_by_layer"]} <= found.keys()
    before = sorted(board.iterdir())
    pt.fit(network(), (X, Y), (X, Y), callbacks=[pt.TensorBoard(board)], resume=True, **given)
    assert sorted(board.iterdir()) == before  # nothing was left to train


def test_members_of_an_ensemble_are_kept_apart(tmp_path, scalars):
    net = pt.ensemble([network(0), network(1)])
    result = pt.fit(net, (X, Y), epochs=2, batch_size=20, callbacks=[pt.TensorBoard(tmp_path)])
    for number, member in enumerate(result.members, 1):
        assert scalars(tmp_path / f"member-{number}")["nll"] == expected(member.history, "nll")


def test_a_run_has_it_by_a_flag(train, tmp_path, scalars):
    done = train("run", "--tensorboard", epochs=2)
    assert done.code == 0, done.err
    found = scalars(tmp_path / "run" / "tensorboard")
    assert found["accuracy"] == expected(Record.read(tmp_path / "run").history, "accuracy")
    assert train("run", "--overwrite").code == 0
    assert not (tmp_path / "run" / "tensorboard").exists()


def test_without_the_extra_it_says_what_to_install(train, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    done = train("run", "--tensorboard")
    assert done.code == 2
    assert "pip install 'posterity[tensorboard]'" in done.err
    assert not (tmp_path / "run").exists()
