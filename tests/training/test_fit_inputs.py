"""What a network may take and give: tokens, several inputs, outputs by name, maps of classes, weights of rows."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader
from torch.utils.data import Dataset as TorchDataset

import posterity as pt
from posterity.core.errors import DataError, UsageError
from posterity.likelihoods import ClassPrediction, Likelihood
from posterity.metrics import score
from posterity.training.fitting_data import as_dataset

ROWS, WORDS = 40, 11
TOKENS = torch.randint(WORDS, (ROWS, 5), generator=torch.Generator().manual_seed(0))
LABELS = TOKENS[:, 0] % 2


class Reader(nn.Module):
    """Attention over embedded tokens, those of a padding masked."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(WORDS, 8)
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.head = nn.Linear(8, 2)

    def forward(self, tokens, mask):
        x = self.embedding(tokens)
        x, _ = self.attention(x, x, x, key_padding_mask=mask, need_weights=False)
        return self.head(x.masked_fill(mask.unsqueeze(-1), 0.0).sum(1) / (~mask).sum(1, keepdim=True))


def reader(**options):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return pt.bayesian(Reader(), seed=0, **options)


def masked():
    mask = torch.zeros(ROWS, 5, dtype=torch.bool)
    mask[: ROWS // 2, 3:] = True
    return {"tokens": TOKENS, "mask": mask}


@pytest.mark.parametrize(
    "as_given", [lambda t: t, lambda t: t.numpy(), lambda t: t.int().numpy(), lambda t: t.tolist()]
)
def test_tokens_stay_tokens(as_given):
    net = pt.bayesian(nn.Sequential(nn.Embedding(WORDS, 4), nn.Flatten(), nn.Linear(20, 2)), seed=0)
    result = pt.fit(net, (as_given(TOKENS), LABELS), epochs=1)
    assert result.history[0]["step"] == 1
    assert as_dataset((as_given(TOKENS), LABELS), net).x.dtype == torch.int64


def test_integers_become_real_where_the_network_takes_no_others():
    linear = pt.bayesian(nn.Linear(5, 2), seed=0)
    for given in (TOKENS, TOKENS.numpy(), TOKENS.numpy().astype(np.uint8), TOKENS.tolist()):
        assert as_dataset((given, LABELS), linear).x.dtype == torch.float32


def test_pixels_become_real_where_the_network_takes_both():
    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.last = nn.Linear(5, 2)

        def forward(self, x):
            return self.last(x.float() / 255)

    net = pt.bayesian(Scaled(), seed=0)
    pixels = TOKENS.numpy().astype(np.uint8)
    assert as_dataset((pixels, LABELS), net).x.dtype == torch.float32
    embedding = pt.bayesian(nn.Sequential(nn.Embedding(WORDS, 4), nn.Flatten(), nn.Linear(20, 2)), seed=0)
    assert as_dataset((pixels, LABELS), embedding).x.dtype == torch.int64


def test_tokens_beyond_an_embedding_are_told():
    net = pt.bayesian(nn.Sequential(nn.Embedding(3, 4), nn.Flatten(), nn.Linear(20, 2)), seed=0)
    with pytest.raises(DataError, match="index out of range"):
        pt.fit(net, (TOKENS + 3, LABELS), epochs=1)


@pytest.mark.parametrize("estimator", ["sample", "local", "flipout"])
def test_attention_with_a_padding_mask(estimator):
    x = masked()
    net = reader()
    result = pt.fit(net, (x, LABELS), (x, LABELS), epochs=2, batch_size=16, estimator=estimator)
    assert result.history[-1]["val_nll"] > 0
    prediction = net.predict(x, 4, seed=0, batch_size=7)
    assert prediction.mean.shape == (ROWS, 2)
    other = {**x, "tokens": TOKENS.clone()}
    other["tokens"][: ROWS // 2, 3:] = 0  # what is masked does not count
    assert torch.allclose(net.predict(other, 4, seed=0).mean, prediction.mean, atol=1e-6)


def test_a_tuple_is_positional_and_a_dict_named(same):
    x = masked()
    named, placed = reader(), reader()
    pt.fit(named, (x, LABELS), epochs=1)
    pt.fit(placed, ((x["tokens"], x["mask"].numpy()), LABELS.numpy()), epochs=1)
    assert same(dict(named.state_dict()), dict(placed.state_dict()))
    given = (x["tokens"], x["mask"])
    first = named.predict(x, 3, seed=1)
    assert torch.equal(first.mean, placed.predict(given, 3, seed=1).mean)
    losses = [
        pt.negative_elbo(reader(), pt.Categorical(), each, LABELS, num_data=ROWS, samples=2).nll for each in (x, given)
    ]
    assert torch.equal(*losses)
    data = pt.Dataset.from_arrays(given, LABELS)
    assert len(data) == ROWS
    part = data.subset(torch.arange(4))
    assert part.x[1].dtype == torch.bool
    assert [len(each) for each in part.x] == [4, 4]


def test_several_inputs_through_a_loader(same):
    x = masked()

    class Rows(TorchDataset):
        def __len__(self):
            return ROWS

        def __getitem__(self, row):
            return {name: part[row] for name, part in x.items()}, LABELS[row]

    class Labelled(Rows):
        def __getitem__(self, row):
            return {**super().__getitem__(row)[0], "labels": LABELS[row]}

    nets = [reader() for _ in range(3)]
    for net, data in zip(nets, ((x, LABELS), Rows(), Labelled()), strict=True):
        pt.fit(net, data, epochs=1, batch_size=16)
    assert same(dict(nets[0].state_dict()), dict(nets[1].state_dict()))
    assert same(dict(nets[0].state_dict()), dict(nets[2].state_dict()))

    def padded(rows):
        """Each batch is as long as its longest."""
        each, y = zip(*rows, strict=True)
        length = max(int((~one["mask"]).sum()) for one in each)
        return {name: torch.stack([one[name] for one in each])[:, :length] for name in x}, torch.stack(y)

    loader = DataLoader(Rows(), 10, collate_fn=padded)
    assert pt.fit(reader(), loader, epochs=2).history[-1]["step"] == 8


@pytest.mark.parametrize(
    ("x", "message"),
    [
        ((), "empty"),
        ((torch.ones(3, 2), torch.ones(2)), "same rows"),
        ({"a": [1, 2]}, "a list; give tensors"),
        ((torch.tensor([[1.0], [float("nan")]]), torch.ones(2)), "NaN"),
    ],
)
def test_several_inputs_are_checked(x, message):
    with pytest.raises(DataError, match=message):
        pt.Dataset(x, torch.zeros(2, dtype=torch.int64), "classification", 2)


class Several(nn.Module):
    """Returns its logits among other things."""

    def __init__(self, kind):
        super().__init__()
        self.body, self.kind = nn.Linear(3, 2), kind

    def forward(self, x):
        logits = self.body(x)
        return {
            "tuple": (x, logits),
            "dict": {"logits": logits, "hidden": x},
            "object": SimpleNamespace(logits=logits, loss=None),
        }[self.kind]


def second(returned):
    return returned[1]


@pytest.mark.parametrize(
    ("kind", "output"), [("tuple", 1), ("tuple", second), ("dict", "logits"), ("object", "logits")]
)
def test_outputs_are_read_by_name_place_or_function(kind, output, tmp_path, same):
    x = torch.randn(30, 3, generator=torch.Generator().manual_seed(0))
    y = (x[:, 0] > 0).long()
    plain = Several(kind)
    net = pt.bayesian(plain, output=output, seed=0)
    alone = pt.bayesian(plain.body, seed=0)
    for each in (net, alone):
        pt.fit(each, (x, y), epochs=2, average="swa")
    assert torch.equal(net.posterior.mean, alone.posterior.mean)
    assert torch.equal(net.predict(x, 4, seed=0).mean, alone.predict(x, 4, seed=0).mean)
    assert net(x).shape == (30, 2)
    assert not isinstance(plain(x), torch.Tensor)  # what was given is left as it is
    pt.save(net, tmp_path / "net")
    if callable(output):
        with pytest.raises(UsageError, match="a function, 'second'"):
            pt.load(tmp_path / "net", plain)
        loaded = pt.load(tmp_path / "net", plain, output=second)
    else:
        loaded = pt.load(tmp_path / "net", plain)
    assert torch.equal(loaded.predict(x, 4, seed=0).mean, net.predict(x, 4, seed=0).mean)
    assert pt.laplace(pt.bayesian(plain, output=output, posterior="point", seed=0), (x, y)).output == output


@pytest.mark.parametrize(
    ("kind", "output", "message"),
    [
        ("dict", None, "bayesian\\(output="),
        ("dict", "logit", "dict with logits, hidden, which has no output 'logit'"),
        ("tuple", 5, "has no output 5"),
        ("object", "loss", "output='loss' is a NoneType"),
        ("dict", 1.5, "not 1.5"),
    ],
)
def test_outputs_that_are_not_there_are_told(kind, output, message):
    with pytest.raises(UsageError, match=message):
        pt.fit(pt.bayesian(Several(kind), output=output, seed=0), (torch.randn(6, 3), torch.arange(6) % 2), epochs=1)


class Pixels(Likelihood):
    """A class for each place of a map, from logits (S, n, K, H, W)."""

    kind = "pixels"

    def log_prob(self, outputs, y):
        return outputs.log_softmax(2).gather(2, y.expand(len(outputs), *y.shape).unsqueeze(2)).flatten(2).sum(-1)

    def predict(self, outputs):
        probs = outputs.softmax(2).mean(0).movedim(1, -1)
        nothing = torch.zeros(probs.shape[:-1])
        return ClassPrediction(probs, nothing, nothing)

    def num_outputs(self, num_targets):
        return num_targets


def test_maps_of_classes_pass_through():
    images = torch.randn(12, 1, 6, 6, generator=torch.Generator().manual_seed(0))
    maps = (images[:, 0] > 0).long()
    net = pt.bayesian(nn.Conv2d(1, 2, 3, padding=1), likelihood=Pixels(), seed=0)
    history = pt.fit(net, (images, maps), epochs=40, lr=0.05, batch_size=4).history
    assert history[-1]["accuracy"] > 0.9
    assert history[-1]["nll"] < history[0]["nll"]
    assert net.predict(images, 3).mean.shape == (12, 6, 6, 2)
    with pytest.raises(DataError, match=r"outputs of shape \(2, 4, 4\).*needs \(2, 6, 6\)"):
        pt.fit(pt.bayesian(nn.Conv2d(1, 2, 3), likelihood=Pixels(), seed=0), (images, maps), epochs=1)


@pytest.mark.parametrize("task", ["classification", "regression"])
@pytest.mark.parametrize("estimator", ["sample", "score"])
def test_a_weight_of_two_is_the_datum_twice(task, estimator):
    x = torch.randn(6, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    y = (x[:, 0] > 0).long() if task == "classification" else x[:, :1]
    likelihood = pt.Categorical() if task == "classification" else pt.GaussianNoise(0.5)
    weight = torch.tensor([1.0, 2.0, 1.0, 1.0, 0.0, 2.0], dtype=torch.float64)
    rows = torch.tensor([0, 1, 1, 2, 3, 5, 5])
    kind = {"gradient": "score"} if estimator == "score" else {}

    def gradient(x, y, **given):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            net = pt.bayesian(nn.Linear(3, 2 if task == "classification" else 1).double(), seed=0)
        loss = pt.negative_elbo(net, likelihood, x, y, num_data=6, temperature=0.0, **kind, **given)
        loss.backward()
        return loss.nll.detach(), net.posterior.mean.grad

    weighted, doubled = gradient(x, y, weight=weight), gradient(x[rows], y[rows])
    for ours, theirs in zip(weighted, doubled, strict=True):
        torch.testing.assert_close(ours * 6, theirs * 7)


def test_weights_follow_their_rows_and_train():
    x = torch.cat([torch.ones(20, 1), torch.ones(20, 1)])
    y = torch.cat([torch.zeros(20), torch.ones(20)])
    weight = torch.cat([torch.full((20,), 3.0), torch.ones(20)])
    data = pt.Dataset.from_arrays(x, y, "regression", weight=weight)
    some = data.sample(10, torch.Generator().manual_seed(0))
    assert torch.equal(some.weight, 3.0 - 2.0 * some.y.squeeze(1))
    rest, held = data.split(0.25, torch.Generator().manual_seed(0))
    assert (len(rest.weight), len(held.weight)) == (30, 10)
    net = pt.bayesian(nn.Linear(1, 1), posterior="point", prior=100.0, seed=0)
    pt.fit(net, data, epochs=200, batch_size=40, lr=0.05, temperature=1)
    assert net.predict([[1.0]]).mean.item() == pytest.approx(0.25, abs=0.01)
    # The spread of 0 (three times) and 1 around 1/4.
    assert net.likelihood.learnt()["noise"] == pytest.approx(0.1875**0.5, rel=0.05)


@pytest.mark.parametrize(
    ("weight", "message"), [([1.0], r"expected real, \(2,\)"), ([1.0, -1.0], "below 0"), ([0, 0], "all 0")]
)
def test_strange_weights_are_refused(weight, message):
    with pytest.raises(DataError, match=message):
        pt.Dataset.from_arrays([[1.0], [2.0]], [0, 1], weight=weight)


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_a_training_with_weights_is_that_of_repeated_rows(task):
    generator = torch.Generator().manual_seed(0)
    x, counts = torch.randn(15, 3, generator=generator).double(), torch.randint(1, 4, (15,), generator=generator)
    y = (x[:, 0] > 0).long() if task == "classification" else x[:, :1] + 0.1 * torch.randn(15, 1, generator=generator)
    again = torch.repeat_interleave(torch.arange(15), counts)
    found = []
    for data in (pt.Dataset.from_arrays(x, y, weight=counts.float()), pt.Dataset.from_arrays(x[again], y[again])):
        torch.manual_seed(0)
        net = pt.bayesian(nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 3 - y.ndim)).double(), seed=0)
        result = pt.fit(net, data, epochs=20, seed=0)
        found.append([net.posterior.mean, net.posterior.sd, net.predict(x, seed=0).total, result.ending["sd_wanted"]])
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs)


def test_maps_of_classes_are_validated_place_by_place():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(40, 1, 6, 6, generator=generator)
    y = (x[:, 0] > 0).long()
    net = pt.bayesian(nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 2, 1)), seed=0)
    result = pt.fit(net, (x, y), (x[:10], y[:10]), epochs=20, seed=0)
    prediction = net.predict(x[:10], seed=0)
    found = score(prediction, y[:10], "classification")
    assert found["accuracy"] == pytest.approx((prediction.label == y[:10]).double().mean().item())
    assert found["nll"] == pytest.approx(-prediction.log_prob(y[:10]).mean().item() / 36, rel=0.1)
    assert result.history[-1]["val_accuracy"] > 0.8
