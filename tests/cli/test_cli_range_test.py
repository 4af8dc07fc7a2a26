from conftest import TINY
from posterity.report import rate_curve


def test_a_suggestion(cli, tmp_path):
    common = ("range-test", *TINY, "--temperature", "0.01", "--figure", tmp_path / "r.png")
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


def test_the_figure_shows_all_losses_before_the_break_and_only_a_real_suggestion():
    rates, losses, smoothed = [1e-3, 1e-2, 1e-1, 1.0], [2.0, 1.0, 0.5, 90.0], [1.5, 1.5, 1.0, 1.0]
    (axes,) = rate_curve(rates, losses, smoothed, None, label="nll", diverged=1.0).axes
    assert [line.get_label() for line in axes.lines] == ["each batch", "smoothed"]
    low, high = axes.get_ylim()
    assert low < 0.5
    assert 2 < high < 3
    assert axes.get_ylabel() == "nll"
    (axes,) = rate_curve(rates, losses, smoothed, 1e-2, label="nll").axes
    assert axes.lines[-1].get_label() == "suggested: 0.01"
