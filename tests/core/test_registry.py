"""Names from outside, in one process; those of packages are tested by tests/cli/test_cli_plugins.py."""

import pytest
import torch
from torch import nn

import posterity as pt
from posterity.core.errors import PosterityError, UsageError
from posterity.data import DATASETS
from posterity.experiments import Run, execute, load_run
from posterity.models import MODELS
from posterity.optim import OPTIMIZERS
from posterity.posteriors import POSTERIORS, MeanField
from posterity.priors import KINDS, SHAPES


@pytest.fixture(autouse=True)
def _as_before():
    registries = (MODELS, DATASETS, POSTERIORS, KINDS, SHAPES, OPTIMIZERS)
    before = [dict(registry) for registry in registries]
    yield
    for registry, kept in zip(registries, before, strict=True):
        registry.clear()
        registry.update(kept)


class Wide(MeanField):
    kind = "wide"


def test_a_run_with_all_from_outside(tmp_path):
    @pt.register_model("two-layers")
    def two_layers(input_shape, num_outputs, width=3):
        return nn.Sequential(nn.Linear(*input_shape, width), nn.ReLU(), nn.Linear(width, num_outputs))

    @pt.register_dataset("line")
    def line():
        x = torch.linspace(-1, 1, 40).unsqueeze(1)
        return pt.Dataset.from_arrays(x, 3 * x + 5, "regression"), pt.Dataset.from_arrays(x, 3 * x + 5, "regression")

    pt.register_posterior("wide", Wide)
    pt.register_optimizer("nadam", torch.optim.NAdam)
    run = Run.of(
        model="two-layers", model_options={"width": 4}, dataset="line", posterior="wide", optimizer="nadam", epochs=2
    )
    record = execute(run, tmp_path / "run")
    assert record.finished
    trained = load_run(tmp_path / "run")
    assert trained.net.posterior.kind == "wide"
    assert trained.predict([[0.5]], seed=0).mean.shape == (1, 1)
    del MODELS["two-layers"]
    with pytest.raises(PosterityError, match="unknown model 'two-layers'"):
        load_run(tmp_path / "run")


@pytest.mark.parametrize(
    ("register", "name", "thing", "words"),
    [
        (pt.register_model, "mlp", nn.Linear, "library's own"),
        (pt.register_model, "mine", nn.Linear(1, 1).weight, "must be a function of input_shape"),
        (pt.register_posterior, "mine", nn.Linear, "subclass of Posterior"),
        (pt.register_posterior, "broad", Wide, "subclass of Posterior"),
        (pt.register_prior, "mine", pt.Gaussian, "`distribution`"),
        (pt.register_optimizer, "mine", 3, "class or a function of parameter groups"),
        (pt.register_dataset, "mine", 3, "function that returns its data"),
    ],
)
def test_refusals(register, name, thing, words):
    with pytest.raises(UsageError, match=words):
        register(name, thing)


def test_data_that_are_no_pair_of_parts():
    pt.register_dataset("odd", lambda: 3)
    with pytest.raises(UsageError, match=r"'odd' must return training and test data"):
        pt.data.load("odd")
