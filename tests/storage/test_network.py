"""save and load: what was saved comes back, what was damaged does not."""

import json
import pickle

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

import posterity as pt
from posterity.core.errors import CorruptFileError, UsageError
from posterity.storage import network as files
from posterity.storage import sealed

X = torch.randn(5, 3, generator=torch.Generator().manual_seed(0))


@pytest.fixture
def trained(network):
    """A network whose weights and batch statistics are not those it began with."""

    def build(dtype=torch.float32, **options):
        net = network(norm=True, **options)
        for _ in range(2):
            net(X)  # moves the batch norm's statistics
        with torch.no_grad():
            for parameter in net.parameters():
                parameter += 0.1 * torch.randn(parameter.shape)
        return net.to(dtype).eval()

    return build


LIKELIHOODS = {
    "none": None,
    "categorical": pt.Categorical(),
    "fixed": pt.GaussianNoise(0.3, num_targets=2),
    "learnt": pt.GaussianNoise("learnt", num_targets=2),
}
CASES = [
    {"posterior": "mean_field"},
    {"posterior": "point"},
    {"prior": pt.Gaussian(0.3, mean="pretrained")},
    {"prior": pt.Gaussian("xavier", mean=0.5), "posterior": "point"},
    {"select": "3.*"},
    {"select": ["0.weight", "*.bias"], "prior": pt.Gaussian(2.0, mean=-1.0)},
    {"dtype": torch.float64},
    {"dtype": torch.bfloat16},
]


@pytest.mark.parametrize("options", CASES, ids=str)
@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_round_trip(trained, module, tmp_path, options, likelihood):
    net = trained(**options, likelihood=LIKELIHOODS[likelihood])
    path = tmp_path / "net.safetensors"
    pt.save(net, path)
    given = module(norm=True)
    kept = {n: t.clone() for n, t in given.state_dict().items()}
    loaded = pt.load(path, given).eval()
    assert all(torch.equal(kept[n], t) for n, t in given.state_dict().items())
    ours, theirs = net.state_dict(), loaded.state_dict()
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[n], theirs[n]) and ours[n].dtype == theirs[n].dtype for n in ours)
    assert loaded.layout == net.layout
    assert type(loaded.posterior) is type(net.posterior)
    assert type(loaded.likelihood) is type(net.likelihood)
    x = X.to(net.posterior.mean.dtype)
    weights = net.draw()
    torch.testing.assert_close(loaded.call(weights, x), net.call(weights, x))
    if net.likelihood is not None:
        assert loaded.likelihood.options() == net.likelihood.options()
        ours, theirs = (n.predict(x, 4, seed=3) for n in (net, loaded))
        torch.testing.assert_close(ours.mean, theirs.mean)
        torch.testing.assert_close(ours.total, theirs.total)
    assert [p.name for p in tmp_path.iterdir()] == ["net.safetensors"]


def test_names_decide_not_the_modules_order(tmp_path):
    class Ordered(nn.Module):
        def __init__(self, names):
            super().__init__()
            for name in names:
                self.add_module(name, nn.Linear(3, 3))

        def forward(self, x):
            return self.b(torch.tanh(self.a(x)))

    net = pt.bayesian(Ordered("ab"), rho=-3.0)
    pt.save(net, tmp_path / "net")
    loaded = pt.load(tmp_path / "net", Ordered("ba"))
    torch.testing.assert_close(loaded.call(loaded.posterior.mean, X), net.call(net.posterior.mean, X))


def test_tied_weights(tmp_path):
    def tied():
        model = nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 3))
        model[2].weight = model[0].weight
        return model

    for select in (None, "*.bias"):
        net = pt.bayesian(tied(), rho=-3.0, select=select)
        pt.save(net, tmp_path / "net")
        loaded = pt.load(tmp_path / "net", tied())
        torch.testing.assert_close(loaded.call(loaded.posterior.mean, X), net.call(net.posterior.mean, X))


WRONG = {
    "wider": lambda plain: plain(norm=True, width=5),
    "fewer": lambda plain: nn.Linear(3, 2),
    "more": lambda plain: nn.Sequential(*plain(norm=True), nn.Linear(2, 2)),
    "no statistics": lambda plain: nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4), nn.Tanh(), nn.Linear(4, 2)),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_wrong_module(trained, module, tmp_path, wrong):
    pt.save(trained(), tmp_path / "net")
    with pytest.raises(UsageError):
        pt.load(tmp_path / "net", WRONG[wrong](module))


def test_no_file(module, tmp_path):
    with pytest.raises(UsageError, match="there is no file"):
        pt.load(tmp_path / "net", module(norm=True))


@pytest.mark.parametrize("keep", [0.0, 0.01, 0.3, 0.7, 0.999])
def test_truncated(trained, module, tmp_path, keep):
    path = tmp_path / "net"
    pt.save(trained(), path)
    content = path.read_bytes()
    path.write_bytes(content[: int(keep * len(content))])
    with pytest.raises(CorruptFileError):
        pt.load(path, module(norm=True))


def test_any_flipped_bit_is_noticed(trained, module, tmp_path):
    path = tmp_path / "net"
    pt.save(trained(likelihood=pt.Categorical()), path)
    content, model = path.read_bytes(), module(norm=True)
    header = 8 + int.from_bytes(content[:8], "little")
    blank = content[:header].rstrip(b" ")
    places = [i for i in range(0, len(content), 7) if not len(blank) <= i < header]  # not the header's padding
    for place in places:
        altered = bytearray(content)
        altered[place] ^= 1 << (place % 8)
        path.write_bytes(altered)
        with pytest.raises(CorruptFileError):
            pt.load(path, model)


def test_pickles_are_refused(trained, module, tmp_path):
    net = trained()
    torch.save(net.state_dict(), tmp_path / "torch")
    (tmp_path / "pickle").write_bytes(pickle.dumps({"posterior.mean": [1.0]}))
    (tmp_path / "text").write_text("weights")
    for name in ("torch", "pickle", "text"):
        with pytest.raises(CorruptFileError, match="not a network that posterity saved"):
            pt.load(tmp_path / name, module(norm=True))


def test_foreign_files_and_other_versions_are_refused(trained, module, tmp_path):
    save_file({"posterior.mean": torch.zeros(3)}, tmp_path / "foreign")
    with pytest.raises(CorruptFileError):
        pt.load(tmp_path / "foreign", module(norm=True))
    pt.save(trained(), tmp_path / "net")
    tensors = load_file(tmp_path / "net")
    header = json.dumps({"format": files.FILE.format, "version": 99, **files.describe(trained())})
    metadata = {"posterity": header, "sha256": sealed._digest(header, tensors)}
    save_file(tensors, tmp_path / "later", metadata=metadata)
    with pytest.raises(CorruptFileError, match="99; this program reads"):
        pt.load(tmp_path / "later", module(norm=True))


def test_failed_save_keeps_the_old_file(trained, tmp_path, monkeypatch):
    path = tmp_path / "net"
    pt.save(trained(), path)
    before = path.read_bytes()

    def fail(tensors, place, metadata):
        place.write_bytes(b"half")
        raise OSError("disk full")

    monkeypatch.setattr("posterity.storage.sealed.save_file", fail)
    with pytest.raises(OSError, match="disk full"):
        pt.save(trained(posterior="point"), path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["net"]
