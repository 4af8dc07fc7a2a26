TINY = ("--dataset", "digits", "--model", "mlp", "--hidden", "16")


def test_a_suggestion(cli, tmp_path):
    settings = ("--optimizer", "adabayes-fp", "--temperature", "0.01")
    common = ("range-test", *TINY, *settings, "--figure", tmp_path / "r.png")
    outcome = cli(*common)
    assert outcome.code == 0, outcome.err
    assert outcome.out.startswith("suggested learning rate: 0.0")
    assert 1e-3 < cli(*common, "--json").json["suggestion"] < 0.1


def test_no_clear_fall_is_said_with_what_to_try(cli, tmp_path):
    common = ("range-test", *TINY, "--high", "1e-5", "--figure", tmp_path / "r.png")
    outcome = cli(*common)
    assert outcome.code == 0
    assert outcome.out.startswith("no clear fall of the nll between 1e-06 and 1e-05: try a higher --high, ")
    assert (tmp_path / "r.png").exists()
    assert cli(*common, "--json").json["suggestion"] is None
