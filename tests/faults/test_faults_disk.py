"""A disk that is full, and weights that overflow: the run ends with a message, and what was good stays good."""

from __future__ import annotations

import contextlib
import gc
import math
import os
import resource
import shutil
import subprocess

import numpy as np
import pytest
import torch

import posterity as pt
from posterity.core.errors import NonFiniteError
from posterity.storage import Checkpoints
from posterity.training import loop

STATE_BYTES = 20_000  # less than a checkpoint of the tiny network, more than everything else that is written


class Break(Exception):
    pass


@pytest.fixture
def begun(train, cli, tmp_path, monkeypatch):
    """A run with two checkpoints, broken off in its middle, and one undisturbed."""

    def make(out):
        original = loop.Training.train_step

        def step(self, index):
            if self.step == 7:
                raise Break
            return original(self, index)

        with monkeypatch.context() as patch:
            patch.setattr(loop.Training, "train_step", step)
            with pytest.raises(Break):
                train(out, "--checkpoint-seconds", 0)
        return out

    assert train("whole").code == 0
    return make


@contextlib.contextmanager
def file_limit(size):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def check_refused_then_resumed(cli, out, tmp_path, blocked, checkpoint_bytes, records):
    names = Checkpoints(out / "checkpoint").names()
    before = checkpoint_bytes(out)
    with blocked:
        done = cli("train", "--out", out, "--resume", "--checkpoint-seconds", 0, "--quiet")
    assert done.code == 1
    assert done.err.startswith("error: the checkpoint of step 8 could not be written")
    assert names[-1] in done.err
    assert done.err.count("\n") == 1
    assert Checkpoints(out / "checkpoint").names() == names
    assert checkpoint_bytes(out) == before
    assert cli("train", "--out", out, "--resume", "--quiet").code == 0
    assert checkpoint_bytes(out) == checkpoint_bytes(tmp_path / "whole")
    assert records(out / "history.jsonl") == records(tmp_path / "whole" / "history.jsonl")


def test_files_that_may_not_grow(begun, cli, tmp_path, checkpoint_bytes, records):
    out = begun(tmp_path / "run")
    check_refused_then_resumed(cli, out, tmp_path, file_limit(STATE_BYTES), checkpoint_bytes, records)


@contextlib.contextmanager
def filled(folder):
    """No free block on the file system of `folder`."""
    with (folder / "filler").open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(4096))
    try:
        yield
    finally:
        (folder / "filler").unlink()


@pytest.fixture
def small_disk(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    if os.getuid() != 0 or not shutil.which("mount"):
        pytest.skip("only root can mount a file system; test_files_that_may_not_grow stands in")
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", disk], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"cannot mount a file system here: {done.stderr.strip()}")
    yield disk
    gc.collect()  # what is mapped from a checkpoint goes with the exception that holds it
    subprocess.run(["umount", disk], check=True)


def test_a_full_disk(begun, cli, tmp_path, small_disk, checkpoint_bytes, records):
    out = begun(small_disk / "run")
    check_refused_then_resumed(cli, out, tmp_path, filled(small_disk), checkpoint_bytes, records)
    with filled(small_disk):
        done = cli("train", "--dataset", "digits", "--model", "mlp", "--quiet", "--out", small_disk / "new")
        assert done.code == 1
        assert "No space left" in done.err
        assert done.err.count("\n") == 1


def test_no_space_for_the_history(begun, cli, tmp_path, monkeypatch, checkpoint_bytes):
    out = begun(tmp_path / "run")

    def fail(self, record):
        raise OSError(28, "No space left on device", str(self.path))

    with monkeypatch.context() as patch:
        patch.setattr("posterity.storage.history.History.append", fail)
        done = cli("train", "--out", out, "--resume", "--quiet")
    assert done.code == 1
    assert "No space left" in done.err
    assert done.err.count("\n") == 1
    assert cli("train", "--out", out, "--resume", "--quiet").code == 0
    assert checkpoint_bytes(out) == checkpoint_bytes(tmp_path / "whole")


def test_a_huge_rate_stops_the_run(train, cli, tmp_path, newest):
    done = train("run", "--optimizer", "sgd", "--lr", "1e6", "--checkpoint-seconds", 0, epochs=3)
    assert done.code == 1
    assert done.out == ""
    assert done.err.count("\n") == 1
    for part in ("error: step ", "weight", "lower lr", "clip"):
        assert part in done.err
    kept = newest(tmp_path / "run")
    assert kept["net"]["posterior.mean"].isfinite().all()
    assert kept["net"]["posterior.rho"].isfinite().all()


@pytest.mark.parametrize("lr", [1e6, 1e20, 3e38])
def test_non_finite_in_python(make_net, small, tmp_path, lr, newest):
    """Even if only the very last step overflows, no such weights are recorded or stored."""
    net = make_net()
    settings = {"optimizer": "sgd", "lr": lr, "schedule": "constant", "batch_size": 60, "epochs": 4}
    with pytest.raises(NonFiniteError, match=r"step \d+.*(1|3)\.(weight|bias).*Try a lower lr") as caught:
        pt.fit(net, small, out=tmp_path / "run", checkpoint_seconds=0, **settings)
    assert caught.value.exit_code == 1
    kept = newest(tmp_path / "run")
    assert kept["net"]["posterior.mean"].isfinite().all()
    lines = (tmp_path / "run" / "history.jsonl").read_text() if kept["step"] else ""
    assert "NaN" not in lines
    assert "Infinity" not in lines


def test_the_last_step_is_checked_too(make_net, small, small_val):
    net = make_net()
    settings = {"optimizer": "sgd", "lr": 3e38, "schedule": "constant", "batch_size": 60, "epochs": 1}
    with pytest.raises(NonFiniteError, match="step 1"):
        pt.fit(net, small, small_val, temperature=1000.0, **settings)


def test_data_that_overflow_name_the_step(make_net):
    x = np.full((20, 64), 1e30, dtype=np.float32)
    net = make_net()
    before = net.posterior.mean.detach().clone()
    with pytest.raises(NonFiniteError, match=r"step 1: .*extreme values in the data"):
        pt.fit(net, (x * np.linspace(0, 1e8, 20, dtype=np.float32)[:, None], np.arange(20) % 10), epochs=1)
    assert torch.equal(net.posterior.mean, before)  # the step was not taken


def test_a_deterministic_weight_is_named(make_net, small):
    net = make_net(select="1.*")

    class Spoil(pt.Callback):
        def on_epoch(self, training, record):
            with torch.no_grad():
                training.net.get_parameter("model.3.bias").fill_(math.inf)

    with pytest.raises(NonFiniteError, match="step 2"):
        pt.fit(net, small, epochs=2, callbacks=[Spoil()])
