"""Training on torch Datasets, DataLoaders and streams: the same weights as in memory, and resumed as exactly."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    IterableDataset,
    RandomSampler,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
)
from torch.utils.data import Dataset as TorchDataset

import posterity as pt
from posterity.core.errors import DataError, UsageError
from posterity.core.randomness import generator
from posterity.data import Batches
from posterity.training.carry_out import carry_out
from posterity.training.plan import plan
from posterity.training.settings import Settings

ROWS, BATCH = 50, 16  # 4 batches an epoch, the last of 2 rows


@pytest.fixture(scope="module")
def classes():
    x = torch.randn(ROWS, 3, generator=torch.Generator().manual_seed(0))
    return x, (x[:, 0] > 0).long()


def make(**options):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        model = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Dropout(options.pop("dropout", 0.0)), nn.Linear(8, 2))
        return pt.bayesian(model, seed=0, **options)


class Stream(IterableDataset):
    """Rows one after the other, each time the same."""

    def __init__(self, *tensors, length=False):
        self.tensors = tensors
        if length:
            self.__class__ = SizedStream

    def __iter__(self):
        return iter(zip(*self.tensors, strict=True))


class SizedStream(Stream):
    def __len__(self):
        return len(self.tensors[0])


class Noisy(TorchDataset):
    """Augmented anew each time, by PyTorch's global generator."""

    def __init__(self, x, y):
        self.x, self.y = x, y

    def __len__(self):
        return len(self.x)

    def __getitem__(self, row):
        return self.x[row] + 0.1 * torch.randn(3), self.y[row]


def our_order(seed, epochs):
    """The batches that a training in memory takes."""
    batches = Batches(ROWS, BATCH, generator(seed, "batches"))
    return [index.tolist() for _ in range(epochs) for index in batches]


def test_the_same_batches_give_the_same_weights(classes, same):
    options = {"epochs": 3, "seed": 4}
    inside, rows, loader = make(), make(), make()
    kept = pt.fit(inside, classes, batch_size=BATCH, **options)
    fetched = pt.fit(rows, TensorDataset(*classes), batch_size=BATCH, **options)
    assert same(dict(inside.state_dict()), dict(rows.state_dict()))
    assert [r["loss"] for r in kept.history] == [r["loss"] for r in fetched.history]

    class OneEpoch:
        """A batch sampler that gives the epochs' batches one after the other."""

        def __init__(self):
            self.left = our_order(4, 3)

        def __len__(self):
            return 4

        def __iter__(self):
            now, self.left = self.left[:4], self.left[4:]
            return iter(now)

    sampler = OneEpoch()
    source = DataLoader(TensorDataset(*classes), batch_sampler=sampler, generator=torch.Generator())
    planned = plan(loader, source, None, Settings.of(**options))
    sampler.left = our_order(4, 3)  # some were looked at for the plan
    carry_out(loader, planned, None)
    assert same(dict(inside.state_dict()), dict(loader.state_dict()))


@pytest.mark.parametrize("kind", ["row by row", "many at once"])
def test_regression_with_a_learnt_noise(kind, same):
    x = torch.randn(40, 3, generator=torch.Generator().manual_seed(0))
    y = x.sum(1) + 0.1

    class Items(TensorDataset):
        if kind == "many at once":

            def __getitems__(self, rows):
                return [(self.tensors[0][row], self.tensors[1][row].item()) for row in rows]

    nets = [pt.bayesian(nn.Linear(3, 1), seed=0, init="uniform") for _ in range(2)]
    pt.fit(nets[0], (x, y), epochs=2)
    result = pt.fit(nets[1], Items(x, y), epochs=2)
    assert nets[1].likelihood.kind == "gaussian"
    torch.testing.assert_close(nets[0].posterior.mean, nets[1].posterior.mean)
    torch.testing.assert_close(nets[0].likelihood.rho, nets[1].likelihood.rho, rtol=1e-3, atol=1e-4)
    assert result.ending["noise"] > 0


@pytest.mark.parametrize(
    ("loader", "num_data", "num_batches"),
    [
        (lambda d: DataLoader(d, BATCH, shuffle=True), ROWS, 4),
        (lambda d: DataLoader(d, BATCH, shuffle=True, drop_last=True), ROWS, 3),
        (lambda d: DataLoader(d, BATCH, sampler=SubsetRandomSampler(range(20))), 20, 2),
        (lambda d: DataLoader(d, BATCH, sampler=RandomSampler(d, num_samples=20)), ROWS, 2),
        (lambda d: DataLoader(d, BATCH, sampler=WeightedRandomSampler(torch.ones(ROWS), 80)), ROWS, 5),
        (lambda d: DataLoader(d, batch_sampler=BatchSampler(RandomSampler(d), BATCH, False)), ROWS, 4),
        (lambda d: DataLoader(Stream(*d.tensors, length=True), BATCH), ROWS, 4),
        (lambda d: pt.LoaderData(DataLoader(Stream(*d.tensors), BATCH), num_data=ROWS), ROWS, 4),
        (lambda d: pt.LoaderData(d, num_data=500), 500, 1),
    ],
)
def test_the_number_of_rows_and_of_batches(classes, loader, num_data, num_batches):
    source = loader(TensorDataset(*classes))
    batches = [] if isinstance(source, pt.LoaderData) else [source]
    before = [one.generator for one in batches]
    planned = plan(make(), source, None, Settings.of())
    assert (planned.feed.num_data, planned.feed.num_batches) == (num_data, num_batches)
    assert planned.subject.num_data == num_data
    assert [one.generator for one in batches] == before
    assert planned.settings.epochs == Settings.of().num_epochs(num_data, num_batches)


def test_a_stream_must_be_told_its_rows(classes):
    with pytest.raises(DataError, match="give num_data"):
        pt.fit(make(), Stream(*classes), epochs=1)
    result = pt.fit(make(), Stream(*classes), epochs=2, batch_size=BATCH, num_data=ROWS)
    assert [record["step"] for record in result.history] == [4, 8]


def test_an_endless_stream_goes_on_from_epoch_to_epoch(classes):
    seen = []

    class Endless(IterableDataset):
        def __iter__(self):
            row = 0
            while True:
                seen.append(row)
                yield torch.full((3,), row % 7 / 7), row % 2
                row += 1

    pt.fit(make(), Endless(), epochs=3, batch_size=10, num_data=20)
    assert seen[-60:] == list(range(60))  # of which others were looked at first


def test_the_kl_counts_by_the_rows_that_are_told(classes):
    shares = []
    for num_data in (50, 5000):
        data = pt.LoaderData(TensorDataset(*classes), num_data=num_data)
        last = pt.fit(make(), data, epochs=1, temperature=1).history[-1]
        shares.append((last["loss"] - last["nll"]) / last["kl"])
    assert shares == [pytest.approx(1 / 50), pytest.approx(1 / 5000)]


def loaders(classes):
    return {
        "rows": lambda: TensorDataset(*classes),
        "noisy rows": lambda: Noisy(*classes),
        "shuffled": lambda: DataLoader(TensorDataset(*classes), BATCH, shuffle=True),
        "own generator": lambda: DataLoader(
            Noisy(*classes), BATCH, shuffle=True, generator=torch.Generator().manual_seed(3)
        ),
        "sampler": lambda: DataLoader(
            Noisy(*classes), BATCH, sampler=SubsetRandomSampler(range(40), torch.Generator().manual_seed(3))
        ),
        "stream": lambda: pt.LoaderData(Stream(*classes), num_data=70),  # more than one pass an epoch
        "workers": lambda: DataLoader(Noisy(*classes), BATCH, shuffle=True, num_workers=1),
    }


@pytest.mark.filterwarnings("ignore:.*fork")  # of libraries with threads that other tests have imported
@pytest.mark.parametrize("at", [2, 4, 5])
@pytest.mark.parametrize("kind", ["rows", "noisy rows", "shuffled", "own generator", "sampler", "stream", "workers"])
def test_a_training_is_resumed_bit_for_bit(classes, kind, at, tmp_path, broken_off, same, records):
    if kind == "workers" and at != 5:
        pytest.skip("starting processes takes long: once is enough")
    source = loaders(classes)[kind]
    settings = {"epochs": 3, "seed": 2}
    if kind in ("rows", "noisy rows", "stream"):
        settings["batch_size"] = BATCH
    whole = pt.fit(make(dropout=0.2), source(), **settings)
    broken_off(make(dropout=0.2), source(), out=tmp_path / "run", at=at, **settings)
    resumed = pt.fit(make(dropout=0.2), source(), out=tmp_path / "run", resume=True, **settings)
    assert same(dict(whole.net.state_dict()), dict(resumed.net.state_dict()))
    assert records(whole.history) == records(resumed.history)


def test_another_loader_is_not_resumed(classes, tmp_path, broken_off):
    broken_off(make(), DataLoader(TensorDataset(*classes), BATCH), out=tmp_path / "run", at=3, epochs=2)
    with pytest.raises(UsageError, match="resumes only with the data"):
        pt.fit(make(), DataLoader(TensorDataset(*classes), 20), out=tmp_path / "run", resume=True, epochs=2)


def test_planning_leaves_generators_alone(classes):
    own = torch.Generator().manual_seed(3)
    loader = DataLoader(Noisy(*classes), BATCH, shuffle=True, generator=own)
    before, everywhere = own.get_state(), torch.get_rng_state()
    plan(make(), loader, None, Settings.of())
    assert torch.equal(own.get_state(), before)
    assert torch.equal(torch.get_rng_state(), everywhere)


def test_validation_averages_and_ensembles_take_loaders(classes):
    def loader():
        return DataLoader(TensorDataset(*classes), BATCH, shuffle=True)

    norm = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 2))
    result = pt.fit(pt.bayesian(norm, seed=0), loader(), loader(), epochs=3, average="swa", average_start=0.0)
    assert {"val_nll", "val_average_nll"} <= result.history[-1].keys()
    assert "sd_wanted" in result.ending
    assert result.averaged.model[1].running_mean.abs().sum() > 0
    many = pt.fit(pt.ensemble(make(), 2, seed=0), loader(), epochs=1)
    assert len(many.members) == 2
    assert pt.range_test(make(), loader(), steps=12).rates


def test_labels_that_the_sample_lacks_are_known_by_the_network():
    x, y = torch.randn(3000, 3), torch.arange(3000) // 1000  # sorted: the first 2000 have two of three classes
    net = pt.bayesian(nn.Linear(3, 3), seed=0)
    result = pt.fit(net, DataLoader(TensorDataset(x, y), 500), epochs=1)
    assert result.history[0]["step"] == 6
    with pytest.raises(DataError, match=r"labels from 2 to 2; expected 0..1"):
        pt.fit(pt.bayesian(nn.Linear(3, 2), seed=0), DataLoader(TensorDataset(x, y), 500), epochs=1)


class Bad(TorchDataset):
    def __init__(self, item):
        self.item = item

    def __len__(self):
        return 10

    def __getitem__(self, row):
        return self.item


@pytest.mark.parametrize(
    ("item", "message"),
    [
        ((torch.ones(3), torch.ones(3), 1), "list of 3; expected a pair"),
        (torch.ones(3), "Tensor; expected a pair"),
        (("text", 1), "needs tensors"),
        ({"x": torch.ones(3), "y": 1}, "dict of 2; expected a pair"),
    ],
)
def test_strange_batches_are_refused(item, message):
    with pytest.raises(DataError, match=message):
        pt.fit(make(), Bad(item), epochs=1)


def test_what_does_not_go_together_is_refused(classes):
    loader = DataLoader(TensorDataset(*classes), BATCH)
    with pytest.raises(UsageError, match="a DataLoader has its own"):
        pt.fit(make(), loader, batch_size=7)
    with pytest.raises(UsageError, match=r"num_data .9. is for streams"):
        pt.fit(make(), classes, num_data=9)
    with pytest.raises(DataError, match="no known end"):
        pt.fit(make(), classes, Stream(*classes), epochs=1)
    with pytest.raises(DataError, match="a torch Dataset or DataLoader, not a list"):
        pt.fit(make(), [classes[0]])

    class Once(IterableDataset):
        def __init__(self):
            self.rows = iter(zip(*classes, strict=True))

        def __iter__(self):
            return self.rows

    with pytest.raises(DataError, match="begin anew"):
        pt.fit(make(), Once(), num_data=ROWS, batch_size=BATCH, epochs=2)


def test_weights_and_names_through_a_dict(classes, same):
    x, y = classes
    weight = torch.tensor([0.5, 1.5]).repeat(ROWS // 2)  # of mean 1, which those of a Dataset are given

    class Named(TorchDataset):
        def __len__(self):
            return ROWS

        def __getitem__(self, row):
            return {"input": x[row], "labels": y[row], "weight": weight[row]}

    named, inside = make(), make()
    pt.fit(named, Named(), epochs=1, batch_size=BATCH)
    pt.fit(inside, pt.Dataset.from_arrays(x, y, weight=weight), epochs=1, batch_size=BATCH)
    assert same(dict(named.state_dict()), dict(inside.state_dict()))
    plain = make()
    pt.fit(plain, classes, epochs=1, batch_size=BATCH)
    assert not torch.equal(plain.posterior.mean, inside.posterior.mean)
