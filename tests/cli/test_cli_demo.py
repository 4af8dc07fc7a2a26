"""`posterity demo`."""

import pytest

from posterity.experiments import Record


def test_demo(cli, tmp_path):
    done = cli("demo", "--out", "demo", "--epochs", 1, "--samples", 2, "--json")
    assert done.code == 0, done.err
    assert done.json.keys() == {"Bayesian", "frequentist"}
    assert done.json["frequentist"]["test"]["epistemic"] == pytest.approx(0, abs=1e-6)
    assert (tmp_path / "demo" / "figures" / "reliability.png").stat().st_size > 1000
    for name, found in done.json.items():
        record = Record.read(tmp_path / "demo" / name.lower())
        assert record.numbers() == found
        assert (record.folder / "figures" / "training.png").is_file()
