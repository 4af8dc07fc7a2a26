"""The studies that come with the repository: all are read at all scales, and one is run, drawn and compared."""

import sys
from collections import Counter
from pathlib import Path

import pytest

from posterity.experiments import Results
from posterity.experiments.study import Study
from posterity.training.methods import METHODS

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
STUDIES = sorted((ROOT / "studies").glob("*.toml"))
OF_SOURCE = ("betas", "group_rates", "optimizer_search", "rate_momentum")
SMOKE_RUNS = 12  # at most: seconds


@pytest.mark.parametrize("path", STUDIES, ids=lambda path: path.stem)
def test_every_scale_has_its_runs(path):
    counts = {}
    for scale in ("smoke", *(("cpu", "paper") if path.stem in OF_SOURCE else ())):
        study = Study.read(path, scale=scale)
        counts[scale] = len(study.items)
        for item in study.items.values():
            assert item.run is not None
            METHODS[item.run.optimizer]  # which is known
    assert 2 <= counts["smoke"] <= SMOKE_RUNS
    if path.stem in OF_SOURCE:
        assert counts["smoke"] < counts["cpu"] < counts["paper"]
        assert Study.read(path).items.keys() == Study.read(path, scale="paper").items.keys()


def test_the_guide_shows_the_study_that_it_runs():
    page = (ROOT / "docs" / "experiments.md").read_text(encoding="utf-8")
    shown = tomllib.loads(page.split("```toml\n")[1].split("```")[0])
    assert Study.of(shown).items.keys() == Study.read(ROOT / "studies" / "digits_momentum.toml").items.keys()


def test_the_four_of_source_000_are_there():
    assert set(OF_SOURCE) <= {path.stem for path in STUDIES}


def source(name):
    path = next(path for path in STUDIES if path.stem == name)
    return [item.run for item in Study.read(path, scale="paper").items.values()]


def test_the_search_is_that_of_the_tables():
    """Table 5.1: 6 combinations of Adam, 6 of AdaBound, 3 of RAdam, 15 of SGD and of YellowFin; 11 draws of each."""
    runs = source("optimizer_search")
    combinations = {"adam": 6, "adabound": 6, "radam": 3, "sgd": 15, "yellowfin": 15}
    assert Counter(run.optimizer for run in runs) == {name: 11 * number for name, number in combinations.items()}
    assert all(run.optimizer_sd == run.optimizer and run.lr_ratio == 1 and run.lr > 0 for run in runs)
    sgd = [run for run in runs if run.optimizer == "sgd"]
    momenta = [run.optimizer_options["momentum"] for run in sgd]
    assert momenta.count(0.0) == 33  # N(0, 0)
    assert all(0 <= momentum <= 0.999 for momentum in momenta)
    assert {run.optimizer_options["amsgrad"] for run in runs if run.optimizer == "adam"} == {True, False}
    assert all(run.optimizer_options["final_lr"] > 0 for run in runs if run.optimizer == "adabound")
    assert all((run.model, run.dataset, run.rho, run.temperature) == ("lenet5", "cifar10", -10, 1) for run in runs)


def test_rates_are_drawn_around_the_tables_values():
    """The lowest third of RAdam's rates is N(1e-3, 5e-4), cut at 0: its mean lies near 1e-3."""
    rates = sorted(run.lr for run in source("optimizer_search") if run.optimizer == "radam")
    thirds = [sum(rates[k : k + 11]) / 11 for k in (0, 11, 22)]
    for mean, value in zip(thirds, (1e-3, 1e-2, 1e-1), strict=True):
        assert mean == pytest.approx(value, rel=0.6)


def test_landscapes_have_both_data_sets_and_uniform_axes():
    for name in ("rate_momentum", "betas"):
        runs = source(name)
        assert Counter((run.dataset, run.epochs) for run in runs) == {("mnist", 1): 400, ("cifar10", 10): 400}
    betas = [run.optimizer_options["betas"] for run in runs]
    assert len({first for first, _ in betas} & {second for _, second in betas}) == 0  # drawn each by itself
    for place in (0, 1):
        values = [pair[place] for pair in betas]
        assert 0.45 < sum(values) / len(values) < 0.55
    rates = [(run.lr, run.lr_sd) for run in source("group_rates")]
    assert sum(lr < 10**-2.5 for lr, _ in rates) / len(rates) == pytest.approx(0.5, abs=0.12)


def test_a_study_of_the_source_runs_and_is_drawn(cli, tmp_path):
    path = next(path for path in STUDIES if path.stem == "betas")
    done = cli("sweep", path, "--scale", "smoke", "--quiet", "--out", "betas")
    assert done.code == 0, done.err
    results = Results.read("betas")
    assert [row.state for row in results] == ["finished"] * 8
    flags = ("--x", "betas.0", "--y", "betas.1", "--z", "nll", "--out", "betas.png", "--json")
    drawn = cli("landscape", "betas", *flags)
    assert drawn.code == 0, drawn.err
    assert drawn.json["places"] == 8
    assert drawn.json["best"]["nll"] == min(results.column("nll"))
    assert (tmp_path / "betas.png").stat().st_size > 10_000
    compared = cli("compare", "betas", "--by", "optimizer", "--json").json
    assert compared["groups"][0]["count"] == 8
