"""A run's network as it is loaded: the trained one, with the units of its data."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

import posterity as pt
from posterity import data
from posterity.core.errors import CorruptFileError, DataError, UsageError
from posterity.experiments import Run, execute, load_run
from posterity.experiments.build import build_data, build_network
from posterity.storage import Checkpoints

TINY = {"model": "mlp", "hidden": (8,), "epochs": 2}


@pytest.fixture(scope="module")
def diabetes(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "diabetes"
    execute(Run(dataset="diabetes", **TINY), folder, samples=2)
    return load_run(folder)


def test_it_is_what_fit_gives(tmp_path):
    run = Run(dataset="digits", deterministic=("3.*",), **TINY)
    execute(run, tmp_path / "run", samples=2)
    trained, parts = load_run(tmp_path / "run"), build_data(run)
    result = pt.fit(build_network(run, parts.train), parts.train, parts.val, **run.training_values())
    assert trained.finished
    for name, tensor in result.net.state_dict().items():
        assert torch.equal(trained.net.state_dict()[name], tensor), name
    raw = data.load_test("digits").x[:5]
    inside = result.net.predict(parts.standardisation.inputs(raw), 3, seed=1)
    assert torch.equal(trained.predict(raw, 3, seed=1).mean, inside.mean)


def test_inputs_of_another_shape(diabetes):
    with pytest.raises(DataError, match=r"\(9,\).*\(10,\)"):
        diabetes.predict(torch.zeros(2, 9), 1, seed=0)


def test_images_may_come_as_rows(tmp_path):
    execute(Run(dataset="digits", **TINY), tmp_path / "run", samples=2)
    trained, x = load_run(tmp_path / "run"), data.load_test("digits").x[:4]
    for shaped in (x.flatten(1), x[:, 0]):
        assert torch.equal(trained.predict(shaped, 3, seed=0).mean, trained.predict(x, 3, seed=0).mean)


@pytest.mark.parametrize("shape", [(0, 10), (0,), ()])
def test_no_inputs_are_refused(diabetes, shape):
    with pytest.raises(DataError, match="no inputs"):
        diabetes.predict(torch.zeros(shape), 1, seed=0)


def test_arrays_and_lists_are_inputs_too(diabetes):
    x = data.load_test("diabetes").x[:3]
    for inputs in (x.numpy(), x.tolist(), x.double().numpy()):
        torch.testing.assert_close(diabetes.predict(inputs, 3, seed=0).mean, diabetes.predict(x, 3, seed=0).mean)


def test_the_held_out_part_is_left_out_of_the_statistics(tmp_path):
    """Mean and sd of inputs and targets come from what is trained on."""
    x = np.arange(100, dtype=np.float32)[:, None]
    np.savez(tmp_path / "d.npz", x=x, y=x * 2, x_test=x + 1000, y_test=x + 1000)
    run = Run(dataset=str(tmp_path / "d.npz"), val_fraction=0.2, **TINY)
    execute(run, tmp_path / "run", samples=2)
    scale = load_run(tmp_path / "run").standardisation
    assert scale.x_mean.item() != pytest.approx(49.5, abs=1e-3)
    assert 35 < scale.x_mean.item() < 65
    assert scale.y_sd.item() == pytest.approx(2 * scale.x_sd.item(), rel=1e-5)


def test_an_unfinished_run_is_its_newest_checkpoint(tmp_path):
    run = Run(dataset="digits", **TINY)
    execute(run, tmp_path / "run", samples=2, checkpoint_seconds=0)
    checkpoints = Checkpoints(tmp_path / "run" / "checkpoint")
    state = checkpoints.read(checkpoints.names()[-2])
    for name in checkpoints.names()[-1:]:
        for file in (checkpoints.folder / name).iterdir():
            file.unlink()
        (checkpoints.folder / name).rmdir()
    trained = load_run(tmp_path / "run")
    assert not trained.finished
    assert torch.equal(trained.net.posterior.mean, state["net"]["posterior.mean"])


def test_a_folder_without_a_checkpoint_or_with_another_networks(tmp_path):
    with pytest.raises(UsageError, match="there is no run"):
        load_run(tmp_path)
    Run(dataset="digits", **TINY).write(tmp_path / "config.toml")
    with pytest.raises(UsageError, match="no checkpoint yet"):
        load_run(tmp_path)
    execute(Run(dataset="digits", **TINY), tmp_path / "run", samples=2)
    folder = tmp_path / "run" / "checkpoint"
    manifest = next(folder.glob("*-final")) / "manifest.json"
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "version": 99}))
    with pytest.warns(UserWarning, match="falling back"):
        assert not load_run(tmp_path / "run").finished
    for other in folder.iterdir():
        (other / "manifest.json").unlink()
    with pytest.warns(UserWarning, match="falling back"), pytest.raises(CorruptFileError):
        load_run(tmp_path / "run")


def test_a_config_that_does_not_fit_the_checkpoint(tmp_path):
    run = Run(dataset="digits", **TINY)
    execute(run, tmp_path / "run", samples=2)
    run.model_copy(update={"hidden": (9,)}).write(tmp_path / "run" / "config.toml")
    with pytest.raises(UsageError, match=r"1\.weight of shape \[8, 64\]; the module has \[9, 64\]"):
        load_run(tmp_path / "run")
