"""`posterity reproduce`: the list, a claim at scale smoke, a gallery of it, refusals."""

from test_cli_app import check_usage_error


def test_the_list(cli):
    assert "T6" in cli("reproduce", "list").out
    found = {each["claim"]: each for each in cli("reproduce", "list", "--json").json}
    assert found["T6"]["source"] == "000, figure 5.2"


def test_a_claim_and_its_page(cli, tmp_path):
    done = cli("reproduce", "t6", "--scale", "smoke", "--workers", 1, "--quiet")
    assert done.code == 0, done.err
    assert "T6 at scale smoke: " in done.out
    assert "means nothing" in done.out
    assert (tmp_path / "runs/claims/T6/smoke/figure.png").exists()
    again = cli("reproduce", "T6", "--scale", "smoke", "--workers", 1, "--quiet", "--json")
    assert again.json[0]["claim"] == "T6"
    pages = cli("reproduce", "gallery", "--scale", "smoke", "--to", "pages", "--json").json["claims"]
    assert pages["T6"] == again.json[0]["verdict"]
    assert (tmp_path / "pages/T6.md").exists()


def test_refusals(cli):
    check_usage_error(cli("reproduce", "T99"), "T99", "T9")
    check_usage_error(cli("reproduce", "T6", "--scale", "big"), "big", "smoke")
    check_usage_error(cli("reproduce", "list", "T6"), "stands alone")
