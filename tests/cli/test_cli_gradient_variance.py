TINY = ("--dataset", "digits", "--model", "mlp", "--hidden", "16")


def test_table_figure_and_json(cli, tmp_path):
    figure = tmp_path / "v.png"
    common = ("gradient-variance", *TINY, "--draws", "3", "--figure", str(figure))
    table = cli(*common, "--samples", "2").out
    assert "flipout path" in table
    assert max(map(len, table.splitlines())) <= 80
    assert figure.stat().st_size > 1000
    found = cli(*common, "--estimator", "local", "--json").json
    assert [r["gradient"] for r in found] == ["analytic", "total", "path"]
    assert all(r["variance"]["mean"] > 0 for r in found)


def test_of_a_trained_run(cli, tmp_path):
    run = str(tmp_path / "run")
    cli("train", *TINY, "--epochs", "1", "--estimator", "local", "--gradient", "path", "--out", run, "--quiet")
    outcome = cli("gradient-variance", "--run", run, "--draws", "2", "--figure", str(tmp_path / "v.png"), "--json")
    assert len(outcome.json) == 10
    for extra in (("--dataset", "gap"), ("--model", "mlp"), ("--prior", "laplace")):
        refused = cli("gradient-variance", "--run", run, "--draws", "2", *extra, "--temperature", "0.1")
        assert refused.code == 2
        assert refused.err.strip().endswith(f"leave out {extra[0]}")
    allowed = ("--temperature", "per-weight", "--tau", "0.5", "--batch-size", "20", "--seed", "3", "--samples", "2")
    score = ("--estimator", "sample", "--gradient", "score", "--baseline", "leave_one_out")
    outcome = cli("gradient-variance", "--run", run, "--draws", "2", *allowed, *score, "--json")
    assert [r["baseline"] for r in outcome.json] == ["leave_one_out"]


def test_kinds_that_do_not_exist(cli):
    common = ("gradient-variance", *TINY, "--draws", "2")
    found = cli(*common, "--posterior", "low_rank", "--json").json
    assert [r["estimator"] for r in found] == ["sample"] * 4
    for options, text in (
        (("--posterior", "low_rank", "--estimator", "flipout"), "independent under q"),
        (("--estimator", "local", "--gradient", "score"), "the score needs log q"),
        (("--gradient", "score", "--baseline", "moving"), "only leave_one_out is measured"),
    ):
        refused = cli(*common, *options)
        assert refused.code == 2
        assert text in refused.err


def test_unknown_name(cli, tmp_path):
    outcome = cli("train", *TINY, "--estimator", "locl", "--out", str(tmp_path / "run"))
    assert outcome.code == 2
    assert "Did you mean 'local'" in outcome.err
