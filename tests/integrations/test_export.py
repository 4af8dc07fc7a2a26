"""Exported programs: the predictor's numbers, for any number of rows, and what they say of themselves."""

import json
import zipfile

import numpy as np
import onnxruntime
import pytest
import torch
from torch import nn

import posterity as pt
from posterity.core.errors import CorruptFileError, DataError, UnknownNameError, UsageError
from posterity.data import Dataset
from posterity.likelihoods import StudentPrediction

G = torch.Generator().manual_seed(0)


def mlp():
    return nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 2))


def conv():
    return nn.Sequential(nn.Conv2d(1, 3, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(12, 2))


SHAPES = {mlp: (3,), conv: (1, 6, 6)}
CASES = [(make, task) for make in SHAPES for task in ("classification", "regression")]
COLUMNS = {
    "classification": ["label", "confidence", "mean", "aleatoric", "epistemic", "total"],
    "regression": ["mean", "sd", "aleatoric_sd", "epistemic_sd", "aleatoric", "epistemic", "total"],
}


def case(make, task):
    """A predictor with everything inside, and raw inputs."""
    x = 50 + 10 * torch.randn(12, *SHAPES[make], generator=G)
    numbers = task == "regression"
    y = 1000 + 30 * torch.randn(12, 2, generator=G) if numbers else torch.arange(12) % 2
    likelihood = pt.GaussianNoise(0.5, num_targets=2) if numbers else pt.Categorical()
    net = pt.bayesian(make(), rho=-1.0, likelihood=likelihood, seed=1)
    known = pt.Standardisation.of(Dataset(x, y, task, 0 if numbers else 2))
    net(known.inputs(x))
    return net.predictor(3, seed=3, standardisation=known, labels=None if numbers else ["cat", "dog"]), x


def agree(found, expected, task):
    assert list(found) == COLUMNS[task]
    for name, column in expected.columns().items():
        torch.testing.assert_close(torch.as_tensor(found[name]), column, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("make", "task"), CASES)
def test_torch_export(make, task, tmp_path):
    predictor, x = case(make, task)
    path = tmp_path / "program.pt2"
    pt.export(predictor, x[:1], path)
    program = torch.export.load(path).module()
    for rows in (1, 2, 12):
        agree(program(x[:rows]), predictor(x[:rows]), task)
    assert pt.exported(path)["what"] == "3 frozen draws of a mean_field posterior (seed 3)"
    assert [p.name for p in tmp_path.iterdir()] == ["program.pt2"]


@pytest.mark.parametrize(("make", "task"), CASES)
def test_onnx(make, task, tmp_path):
    predictor, x = case(make, task)
    path = tmp_path / "program.onnx"
    pt.export(predictor, x[:1], path)
    session = onnxruntime.InferenceSession(path)
    names = [output.name for output in session.get_outputs()]
    for rows in (1, 2, 12):
        found = session.run(None, {"inputs": x[:rows].numpy()})
        agree(dict(zip(names, found, strict=True)), predictor(x[:rows]), task)
    notes = json.loads(session.get_modelmeta().custom_metadata_map["posterity"])
    assert notes == pt.exported(path)
    assert notes["what"] == "3 frozen draws of a mean_field posterior (seed 3)"
    assert (notes["samples"], notes["seed"], notes["posterity"]) == (3, 3, pt.__version__)
    assert notes["classes"] == (["cat", "dog"] if task == "classification" else None)
    assert [p.name for p in tmp_path.iterdir()] == ["program.onnx"]


def test_a_network_is_exported_with_its_mean_weights(network, tmp_path):
    net = network(likelihood=pt.Categorical())
    x = torch.randn(4, 3)
    program = pt.export(net, x, tmp_path / "mean.pt2")
    notes = pt.exported(tmp_path / "mean.pt2")
    assert notes["mean_weights"]
    assert notes["what"] == "mean weights of a mean_field posterior"
    assert (notes["samples"], notes["seed"]) == (1, None)
    found = program.module()(x)
    torch.testing.assert_close(found["mean"], net.trial(x).softmax(-1))
    assert found["epistemic"].abs().max() < 1e-6


def test_without_a_path_it_is_only_returned(network):
    net = network(likelihood=pt.Categorical())
    program = pt.export(net.predictor(2), np.zeros((1, 3), dtype="float32"), format="pt2")
    assert set(program.module()(torch.zeros(5, 3))) == set(COLUMNS["classification"])


def test_tokens(tmp_path):
    model = nn.Sequential(nn.Embedding(7, 4), nn.Flatten(), nn.Linear(12, 2))
    predictor = pt.bayesian(model, rho=-1.0, likelihood=pt.Categorical()).predictor(3)
    tokens = torch.randint(7, (6, 3), generator=G)
    program = pt.export(predictor, tokens, tmp_path / "program.pt2").module()
    agree(program(tokens), predictor(tokens), "classification")
    assert pt.exported(tmp_path / "program.pt2")["input"] == {"shape": [3], "dtype": "int64"}


class Branching(nn.Module):
    """Does what neither vmap nor an export can."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 2)

    def forward(self, x):
        out = self.linear(x)
        return out if out.sum() > 0 else 10 * out


def test_what_cannot_be_exported_says_so(tmp_path):
    predictor = pt.bayesian(Branching(), rho=-1.0, likelihood=pt.Categorical()).predictor(2)
    with pytest.raises(RuntimeError, match="data-dependent"):
        pt.export(predictor, torch.ones(2, 3), tmp_path / "program.pt2")
    assert list(tmp_path.iterdir()) == []


def test_wrong_usage(network, tmp_path):
    net = network(likelihood=pt.Categorical())
    x = torch.zeros(1, 3)
    with pytest.raises(UsageError, match=r"ends in .pt2 or .onnx"):
        pt.export(net, x, tmp_path / "program.pth")
    with pytest.raises(UsageError, match="or a format"):
        pt.export(net, x)
    with pytest.raises(UnknownNameError, match="Did you mean 'onnx'"):
        pt.export(net, x, format="onx")
    with pytest.raises(UsageError, match="not a Linear"):
        pt.export(nn.Linear(3, 2), x, format="pt2")
    with pytest.raises(UsageError, match="no likelihood"):
        pt.export(network(), x, format="pt2")
    with pytest.raises(DataError, match="row 0"):
        pt.export(net, x / 0, format="pt2")


def test_other_files_say_nothing(tmp_path):
    with pytest.raises(UsageError, match="there is no file"):
        pt.exported(tmp_path / "none.pt2")
    for name in ("text.pt2", "text.onnx"):
        (tmp_path / name).write_text("weights")
        with pytest.raises(CorruptFileError, match="not a program that posterity exported"):
            pt.exported(tmp_path / name)
    with zipfile.ZipFile(tmp_path / "foreign.pt2", "w") as archive:
        archive.writestr("p/extra/other.json", "{}")
    with pytest.raises(CorruptFileError):
        pt.exported(tmp_path / "foreign.pt2")


ADVICE = r"net\.predictor\(samples=32\).*posterity\.export"


class Wrapping(nn.Module):
    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, x):
        return self.net.predict(x, 4, seed=3).mean


WAYS = {
    "trace": lambda net, x: torch.jit.trace(net, x),
    "export": lambda net, x: torch.export.export(net, (x,)),
    "trace of its predictions": lambda net, x: torch.jit.trace(Wrapping(net), x),
}


@pytest.mark.filterwarnings("ignore")  # torch.jit.trace warns of itself
@pytest.mark.parametrize("way", WAYS)
def test_a_live_network_is_not_traced(network, way):
    net = network(likelihood=pt.Categorical()).eval()
    with pytest.raises(UsageError, match=ADVICE):
        WAYS[way](net, torch.zeros(2, 3))
    assert net(torch.zeros(2, 3)).shape == (2, 2)  # it lives on


@pytest.mark.filterwarnings("ignore")
def test_nor_by_the_onnx_exporter(network):
    net = network(likelihood=pt.Categorical()).eval()
    with pytest.raises(torch.onnx.OnnxExporterError, match=ADVICE):
        torch.onnx.export(net, (torch.zeros(2, 3),), dynamo=True, verbose=False)


@pytest.mark.filterwarnings("ignore")  # of PyTorch's compiler, about its own
def test_a_compiled_network_still_draws(network):
    net = network(likelihood=pt.Categorical()).eval()
    compiled = torch.compile(net, backend="eager")
    x = torch.ones(2, 3)
    assert not torch.allclose(compiled(x), compiled(x))


@pytest.mark.parametrize("suffix", ["pt2", "onnx"])
def test_settled_noise(suffix, tmp_path):
    """Student-t with a trend, stretched: a program has means and sds, which are those of the prediction."""
    net = pt.bayesian(nn.Linear(3, 1), likelihood=pt.GaussianNoise("learnt"), rho=-1.0, seed=1)
    found = {"df": [3.0], "stretch": [2.0], "trend": [[0.3], [0.1], [-1.0], [0.5]]}
    net.likelihood.load_state_dict(net.likelihood.state_dict() | {k: torch.tensor(v) for k, v in found.items()})
    x, path = torch.randn(5, 3, generator=G), tmp_path / f"program.{suffix}"
    predictor = net.predictor(4, seed=0)
    pt.export(predictor, x, path)
    if suffix == "pt2":
        found = torch.export.load(path).module()(x)
    else:
        session = onnxruntime.InferenceSession(path)
        names = [output.name for output in session.get_outputs()]
        found = dict(zip(names, map(torch.as_tensor, session.run(None, {"inputs": x.numpy()})), strict=True))
    expected = predictor(x)
    assert isinstance(expected, StudentPrediction)
    assert set(found) == set(expected.columns())
    for name, column in expected.columns().items():
        torch.testing.assert_close(found[name], column)
