"""What went wrong with a training is said after its results, with or without a display."""

from posterity.experiments import Run, execute


def test_a_network_that_learns_nothing(train):
    options = ("--temperature", 50, "--optimizer", "adam", "--lr", 1e-6, "--lr-sd", 1e-6)
    done = train("run", *options, epochs=2)
    assert done.code == 0
    pulled, unmoved = done.err.splitlines()[-2:]
    assert pulled.startswith("warning: the KL's term (")
    assert pulled.endswith("try temperature 0.1 or auto")
    assert unmoved.startswith("warning: the standard deviations have not arrived (")
    done = train("json", *options, "--json")
    assert done.json["stopped"] == "epochs"
    assert "try temperature 0.1 or auto" in done.err


def test_a_training_that_ends_before_its_average(train):
    wild = ("--optimizer", "adam", "--lr", 0.5, "--lr-sd", 0.5, "--rho", -5, "--prior-scale", "kaiming")
    early = ("--temperature", 1, "--val-fraction", 0.1, "--patience", 1)
    done = train("run", "--average", "hwa", *wild, *early, epochs=10)
    assert done.code == 0
    assert "finished: no better validation nll" in done.err
    assert "warning: there is no average: it takes 1 snapshot, and the training ended with 0" in done.err


def test_digits_at_temperature_1(tmp_path):
    """LeNet-5 under Bayes' rule and a wide prior stays at chance, and says so from the first epoch on."""
    rates = {"optimizer": "adam", "lr": 1e-3, "lr_sd": 1e-3}
    run = Run(model="lenet5", epochs=2, temperature=1.0, prior_scale="kaiming", rho=-5.0, val_fraction=0.1, **rates)
    for record in execute(run, tmp_path / "run", samples=2).history:
        assert record["accuracy"] < 0.2
        assert any("try temperature 0.1 or auto" in warning for warning in record["warnings"])
