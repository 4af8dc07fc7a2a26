"""What went wrong with a training is said after its results, with or without a display."""

from posterity.experiments import Run, execute


def test_a_network_that_learns_nothing(train):
    options = ("--temperature", 50, "--lr", 1e-6)
    done = train("run", *options, epochs=2)
    assert done.code == 0
    assert done.err.splitlines()[-1].startswith("warning: the KL's term (")
    assert done.err.endswith("try temperature 0.1 or per-weight\n")
    done = train("json", *options, "--json")
    assert done.json["stopped"] == "epochs"
    assert "try temperature 0.1 or per-weight" in done.err


def test_a_training_that_ends_before_its_average(train):
    done = train("run", "--average", "hwa", "--patience", 1, "--lr", 0.5, epochs=10)
    assert done.code == 0
    assert "finished: no better validation nll" in done.err
    assert "warning: there is no average: it takes 1 snapshot, and the training ended with 0" in done.err


def test_digits_at_temperature_1(tmp_path):
    """LeNet-5 with the defaults stays at chance, and says so from the first epoch on."""
    for record in execute(Run(epochs=2), tmp_path / "run", samples=2).history:
        assert record["accuracy"] < 0.2
        assert any("try temperature 0.1 or per-weight" in warning for warning in record["warnings"])
