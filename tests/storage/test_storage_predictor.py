"""A predictor in one file: what was saved comes back, what was damaged does not."""

import json

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import nn

import posterity as pt
from posterity.core.errors import CorruptFileError, UsageError
from posterity.data import Dataset
from posterity.storage import sealed

X = 50 + 10 * torch.randn(20, 3, generator=torch.Generator().manual_seed(0))


def classes():
    return Dataset(X, torch.arange(20) % 2, "classification", 2), {"labels": ["cat", "dog"]}, pt.Categorical()


def numbers():
    y = torch.randn(20, 2, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    return Dataset(X, 1e9 + 4 * y, "regression"), {}, pt.GaussianNoise("learnt", num_targets=2)


@pytest.fixture
def predictor(network):
    def build(task=classes, samples=4, **options):
        data, meaning, likelihood = task()
        net = network(norm=True, dropout=True, likelihood=likelihood, **options)
        net(X)  # moves the batch norm's statistics
        if task is numbers:
            with torch.no_grad():
                net.likelihood.rho.fill_(-0.7)
        return net.predictor(samples, seed=3, standardisation=pt.Standardisation.of(data), **meaning)

    return build


@pytest.mark.parametrize("task", [classes, numbers])
@pytest.mark.parametrize("options", [{}, {"posterior": "point"}, {"select": "4.*"}, {"samples": None}], ids=str)
def test_round_trip(predictor, module, tmp_path, task, options):
    made = predictor(task, **options)
    path = tmp_path / "predictor.safetensors"
    pt.save_predictor(made, path)
    given = module(norm=True, dropout=True)
    kept = {n: t.clone() for n, t in given.state_dict().items()}
    loaded = pt.load_predictor(path, given)
    assert all(torch.equal(kept[n], t) for n, t in given.state_dict().items())
    assert repr(loaded) == repr(made)
    assert loaded.labels == made.labels
    ours, theirs = made(X), loaded(X)
    for name in ours.columns():
        assert torch.equal(getattr(ours, name), getattr(theirs, name)), name
    assert [p.name for p in tmp_path.iterdir()] == ["predictor.safetensors"]


def test_without_meaning(network, module, tmp_path):
    made = network(likelihood=pt.Categorical()).predictor(3)
    pt.save_predictor(made, tmp_path / "p")
    loaded = pt.load_predictor(tmp_path / "p", module())
    assert loaded.standardisation is None
    assert loaded.labels is None
    assert loaded.seed == made.seed
    assert torch.equal(loaded(X).mean, made(X).mean)


def test_double_precision(network, module, tmp_path):
    made = network(likelihood=pt.Categorical(), dtype=torch.float64).predictor(3)
    pt.save_predictor(made, tmp_path / "p")
    answer = pt.load_predictor(tmp_path / "p", module())(X)
    assert answer.mean.dtype == torch.float64
    assert torch.equal(answer.mean, made(X).mean)


def test_another_architecture_is_refused(predictor, module, tmp_path):
    pt.save_predictor(predictor(), tmp_path / "p")
    with pytest.raises(UsageError, match="the module has"):
        pt.load_predictor(tmp_path / "p", module(width=7, norm=True, dropout=True))
    with pytest.raises(UsageError, match="does not fit this module"):
        pt.load_predictor(tmp_path / "p", nn.Sequential(*module(norm=True, dropout=True), nn.BatchNorm1d(2)))


def test_damage_is_noticed(predictor, module, tmp_path):
    path = tmp_path / "p"
    pt.save_predictor(predictor(), path)
    content, model = path.read_bytes(), module(norm=True, dropout=True)
    header = 8 + int.from_bytes(content[:8], "little")
    blank = content[:header].rstrip(b" ")
    for place in [i for i in range(0, len(content), 31) if not len(blank) <= i < header]:
        altered = bytearray(content)
        altered[place] ^= 1 << (place % 8)
        path.write_bytes(altered)
        with pytest.raises(CorruptFileError):
            pt.load_predictor(path, model)
    for size in (0, 5, header, len(content) - 1):
        path.write_bytes(content[:size])
        with pytest.raises(CorruptFileError, match="not a predictor that posterity saved"):
            pt.load_predictor(path, model)


def test_other_files_are_refused(predictor, network, module, tmp_path):
    model = module(norm=True, dropout=True)
    pt.save(network(), tmp_path / "net")
    with pytest.raises(CorruptFileError, match=r"posterity-network.*this program reads posterity-predictor"):
        pt.load_predictor(tmp_path / "net", model)
    with pytest.raises(UsageError, match="there is no file"):
        pt.load_predictor(tmp_path / "none", model)


@pytest.mark.parametrize("without", ["weights", "likelihood", "origin", "labels", "standardised"])
def test_an_incomplete_description_is_refused(predictor, module, tmp_path, without):
    path = tmp_path / "p"
    pt.save_predictor(predictor(), path)
    tensors = load_file(path)
    with safe_open(path, framework="pt") as file:
        header = json.loads(file.metadata()["posterity"])
    del header[without]
    text = json.dumps(header)
    save_file(tensors, path, metadata={"posterity": text, "sha256": sealed._digest(text, tensors)})
    with pytest.raises(CorruptFileError, match="does not describe a predictor"):
        pt.load_predictor(path, module(norm=True, dropout=True))


def test_a_loaded_network_is_ready_to_predict(module, tmp_path):
    data = Dataset((X - 50) / 10, torch.arange(20) % 2, "classification", 2)
    net = pt.bayesian(module(norm=True, dropout=True), seed=1)
    pt.fit(net, data, epochs=2, progress=False)
    pt.save(net, tmp_path / "net")
    loaded = pt.load(tmp_path / "net", module(norm=True, dropout=True).train())
    assert not any(part.training for part in loaded.modules())
    assert isinstance(loaded.likelihood, pt.Categorical)
    assert torch.equal(loaded.predict(data.x, 4, seed=3).mean, net.predict(data.x, 4, seed=3).mean)
    assert torch.equal(loaded.predictor(4, seed=3)(data.x).mean, net.predictor(4, seed=3)(data.x).mean)
    statistics = loaded.model[1].running_mean.clone()
    loaded(data.x)  # a pass of one's own: in eval mode it does not move the batch statistics either
    assert torch.equal(loaded.model[1].running_mean, statistics)
