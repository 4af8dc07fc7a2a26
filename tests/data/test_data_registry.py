from __future__ import annotations

import numpy as np
import pytest
import torch

from posterity import data
from posterity.core.errors import CorruptFileError, FetchError, UnknownNameError, UsageError
from posterity.data import cifar, idx, synthetic, tabular, uci


def test_names_are_described_in_order():
    described = data.describe()
    assert [info.name for info in described] == data.names() == sorted(data.names())
    assert {"digits", "mnist", "cifar100", "uci-protein", "and"} <= set(data.names())


def test_the_families_share_no_name_and_the_registry_has_them_all():
    families = [family.DATASETS for family in (cifar, idx, synthetic, tabular, uci)]
    assert sorted(name for family in families for name in family) == data.names()


def test_entries_say_how_they_are_loaded():
    for family in (cifar, idx, synthetic, tabular, uci):
        for entry in family.DATASETS.values():
            assert (entry.load is None) == (entry.num_train == 0)
            assert entry.load or entry.load_test
            assert (entry.fetch is None) == (entry.origin == "embedded")
    sizes = {info.name: (info.num_train, info.num_test) for info in data.describe()}
    assert (sizes["mnist"], sizes["kmnist"], sizes["cifar100"]) == ((60000, 10000), (0, 10000), (50000, 10000))


def test_only_the_truth_table_is_not_standardised():
    embedded = [info.name for info in data.describe() if info.origin == "embedded"]
    assert [name for name in embedded if data.load(name).raw] == ["and"]


@pytest.mark.parametrize("info", [i for i in data.describe() if i.origin == "embedded"], ids=lambda i: i.name)
def test_embedded_sets_are_what_their_description_says(info):
    splits = data.load(info.name)
    assert info.available
    assert (len(splits.train), len(splits.test)) == (info.num_train, info.num_test)
    for part in (splits.train, data.load_test(info.name)):
        assert part.x.dtype == torch.float32
        assert (part.name, part.task, part.input_shape, part.num_classes) == (
            info.name,
            info.task,
            info.shape,
            info.num_classes,
        )


def test_unknown_names_suggest_the_nearest():
    for function in (data.load, data.load_test, data.fetch):
        with pytest.raises(UnknownNameError, match=r"unknown data set 'minst'\. Did you mean 'mnist'\?"):
            function("minst")


def test_options_without_effect_are_refused():
    with pytest.raises(UsageError, match="split=3 means nothing for 'digits'"):
        data.load("digits", split=3)
    with pytest.raises(UsageError, match="target='y' means nothing for 'mnist'"):
        data.load_test("mnist", target="y")
    with pytest.raises(UsageError, match=r"split=1 means nothing for 'x\.npz'"):
        data.load("x.npz", split=1)


def test_sets_without_training_data_load_as_test_only():
    for name in ("kmnist", "notmnist"):
        with pytest.raises(UsageError, match=f"'{name}' has only test data.*load_test"):
            data.load(name)


def test_there_is_nothing_to_fetch_of_an_embedded_set():
    with pytest.raises(UsageError, match="'digits' comes with the library"):
        data.fetch("digits")


def test_uci_without_its_folder_says_what_to_do(monkeypatch, tmp_path):
    monkeypatch.delenv("POSTERITY_DATA", raising=False)
    with pytest.raises(FetchError, match=r"uci/concrete\.npz, but POSTERITY_DATA is not set"):
        data.load("uci-concrete")
    monkeypatch.setenv("POSTERITY_DATA", str(tmp_path))
    with pytest.raises(FetchError, match=r"uci has no such file; set POSTERITY_DATA"):
        data.fetch("uci-concrete")
    assert not any(info.available for info in data.describe() if info.origin == "local")


def test_an_altered_uci_file_is_refused(monkeypatch, tmp_path):
    monkeypatch.setenv("POSTERITY_DATA", str(tmp_path))
    (tmp_path / "uci").mkdir()
    path = tmp_path / "uci" / uci.SETS["uci-energy"].file
    np.savez(path, x=np.zeros((4, 8)), y=np.zeros(4), train=np.ones((20, 4), bool))
    with pytest.raises(CorruptFileError, match=r"energy\.npz has SHA-256 .* get the original"):
        data.load("uci-energy")
    np.savez(path, x=np.zeros((4, 8)))
    with pytest.raises(CorruptFileError, match=r"energy\.npz lacks train, y; it has x"):
        data.load("uci-energy")
    path.write_bytes(b"nonsense")
    with pytest.raises(CorruptFileError, match="cannot read"):
        data.load("uci-energy")
