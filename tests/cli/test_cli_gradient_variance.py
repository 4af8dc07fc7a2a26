from conftest import TINY


def test_table_figure_and_json(cli, tmp_path):
    figure = tmp_path / "v.png"
    common = ("gradient-variance", *TINY, "--draws", "3", "--figure", str(figure))
    assert "flipout path" in cli(*common).out
    assert figure.stat().st_size > 1000
    found = cli(*common, "--estimator", "local", "--json").json
    assert [r["gradient"] for r in found] == ["analytic", "total", "path"]
    assert all(r["variance"]["mean"] > 0 for r in found)


def test_of_a_trained_run(cli, tmp_path):
    run = str(tmp_path / "run")
    cli("train", *TINY, "--epochs", "1", "--estimator", "local", "--gradient", "path", "--out", run, "--quiet")
    outcome = cli("gradient-variance", "--run", run, "--draws", "2", "--figure", str(tmp_path / "v.png"), "--json")
    assert len(outcome.json) == 10


def test_unknown_name(cli, tmp_path):
    outcome = cli("train", *TINY, "--estimator", "locl", "--out", str(tmp_path / "run"))
    assert outcome.code == 2
    assert "Did you mean 'local'" in outcome.err
