"""log_prob is the one contract: of a likelihood of one's own it is what trains, predicts, is scored and stored."""

import numpy as np
import pytest
import torch
from torch import nn

import posterity as pt
from posterity.core.errors import UsageError
from posterity.metrics import score

G = torch.Generator().manual_seed(0)
X = torch.randn(40, 3, generator=G)
Y = (X[:, 0] > 0).long()


class Tempered(pt.Categorical):
    """Logits divided by 3."""

    def log_prob(self, outputs, y):
        return super().log_prob(outputs / 3, y)


class Doubtful(pt.Bernoulli):
    """Yes or no, with logits divided by 3."""

    def log_prob(self, outputs, y):
        return super().log_prob(outputs / 3, y)


@pt.register_likelihood
class Registered(Tempered):
    """The same, known by its place."""


class Laplacian(pt.Likelihood):
    """Targets with Laplace noise of a scale that is an option."""

    task = "regression"

    def __init__(self, scale=1.0):
        super().__init__()
        self.scale = scale

    def log_prob(self, outputs, y):
        return torch.distributions.Laplace(outputs, self.scale).log_prob(y).sum(-1)

    def predict(self, outputs):
        return pt.GaussianNoise(self.scale * 2**0.5).predict(outputs)

    def num_outputs(self, num_targets):
        return num_targets

    def options(self):
        return {"scale": self.scale}


def test_nll_is_that_of_log_prob():
    outputs = torch.randn(2, 40, 2, generator=G)
    expected = nn.functional.cross_entropy(outputs.flatten(0, 1) / 3, Y.repeat(2))
    torch.testing.assert_close(Tempered().nll(outputs, Y), expected)
    assert not torch.isclose(pt.Categorical().nll(outputs, Y), expected)


def test_training_goes_by_it(network):
    nets = network(), network()
    pt.negative_elbo(nets[0], Tempered(), X, Y, num_data=40, temperature=0.0).backward()
    outputs = nets[1].outputs(X, weights=nets[1].draw())
    nn.functional.cross_entropy(outputs[0] / 3, Y).backward()
    torch.testing.assert_close(nets[0].posterior.mean.grad, nets[1].posterior.mean.grad)


def test_predictions_and_scores_go_by_it():
    outputs = torch.randn(4, 40, 2, generator=G)
    ours = Tempered().predict(outputs)
    plain = pt.Categorical().predict(outputs / 3)
    torch.testing.assert_close(ours.mean, plain.mean)
    assert score(ours, Y, "classification") == pytest.approx(score(plain, Y, "classification"), abs=1e-6)
    torch.testing.assert_close(ours.expected_log_prob(Y), Tempered().log_prob(outputs, Y).mean(0))
    torch.testing.assert_close(
        Doubtful().predict(outputs[..., :1]).mean, pt.Bernoulli().predict(outputs[..., :1] / 3).mean
    )


class Contrary(pt.Categorical):
    """It predicts the least probable class."""

    def predict(self, outputs):
        return super().predict(-outputs)


@pytest.mark.parametrize("shape", [(1, 20, 4), (3, 20, 4), (1, 5, 4, 2, 3), (2, 5, 4, 2, 3)], ids=str)
def test_labels_are_those_of_the_prediction(shape):
    outputs = torch.randn(shape, generator=G)
    for likelihood in (pt.Categorical(), Contrary(), *([Tempered()] if len(shape) == 3 else [])):
        assert torch.equal(likelihood.labels(outputs), likelihood.predict(outputs).label)
    assert not torch.equal(Contrary().labels(outputs), pt.Categorical().labels(outputs))


def test_another_nll_is_refused():
    with pytest.raises(TypeError, match="define log_prob"):
        type("Other", (pt.Categorical,), {"nll": lambda self, outputs, y: 0})


def test_another_log_prob_with_the_old_prediction_is_refused():
    with pytest.raises(TypeError, match="define predict"):
        type("Other", (pt.GaussianNoise,), {"log_prob": lambda self, outputs, y: 0})


@pytest.mark.parametrize("likelihood", [Tempered(), Laplacian(0.5)], ids=["Tempered", "Laplacian"])
def test_saved_and_loaded_by_naming_the_class(likelihood, network, tmp_path, module):
    kind, outputs = type(likelihood), likelihood.num_outputs(2)
    net = network(likelihood=likelihood)
    path = tmp_path / "net.safetensors"
    pt.save(net, path)
    loaded = pt.load(path, module(), likelihood=kind)
    assert type(loaded.likelihood) is kind
    assert loaded.likelihood.options() == likelihood.options()
    assert torch.equal(loaded.predict(X, seed=0).mean, net.predict(X, seed=0).mean)
    assert outputs == 2
    with pytest.raises(UsageError, match=f"likelihood={kind.__name__}"):
        pt.load(path, module())
    with pytest.raises(UsageError, match="that was saved is"):
        pt.load(path, module(), likelihood=Registered)
    with pytest.raises(UsageError, match="subclass"):
        pt.load(path, module(), likelihood=dict)


def test_a_registered_one_is_loaded_as_it_is(network, tmp_path, module):
    path = tmp_path / "net.safetensors"
    pt.save(network(likelihood=Registered()), path)
    assert type(pt.load(path, module()).likelihood) is Registered
    with pytest.raises(UsageError, match="subclass"):
        pt.register_likelihood(dict)


def test_nothing_is_imported_because_a_file_names_it(network, tmp_path, module, monkeypatch):
    (tmp_path / "harmful.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    kind = type("Harmful", (Tempered,), {"__module__": "harmful"})
    pt.save(network(likelihood=kind()), tmp_path / "net.safetensors")
    with pytest.raises(UsageError, match="harmful:Harmful"):
        pt.load(tmp_path / "net.safetensors", module())


@pytest.mark.filterwarnings("ignore::posterity.ProlongedWarning")
def test_through_fit_and_resumed(network, tmp_path):
    data = X.numpy(), X[:, :1].numpy()
    net = network(3, 1)
    pt.fit(net, data, data, likelihood=Laplacian(0.5), epochs=1, out=tmp_path / "run")
    again = network(3, 1)
    result = pt.fit(again, data, data, likelihood=Laplacian(0.5), epochs=2, out=tmp_path / "run", resume=True)
    assert len(result.history) == 2
    with pytest.raises(UsageError, match="likelihood"):
        pt.fit(network(3, 1), data, data, likelihood=Laplacian(0.7), epochs=2, out=tmp_path / "run", resume=True)


@pytest.mark.parametrize("lacks", ["train", "val"])
def test_folds_that_lack_a_class(lacks, network):
    whole, part = np.arange(40) % 3, np.arange(40) % 2
    y = {"train": whole, "val": whole, lacks: part}
    net = network(3, 3)
    pt.fit(net, (X.numpy(), y["train"]), (X.numpy(), y["val"]), epochs=1)
    assert net.predict(X).mean.shape == (40, 3)
    ordered = network(3, 1)
    pt.fit(ordered, (X.numpy(), y["train"]), (X.numpy(), y["val"]), likelihood=pt.Ordinal(3), epochs=1)
    assert ordered.predict(X).mean.shape == (40, 3)
