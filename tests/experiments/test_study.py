"""Studies: what their items are, that they depend on the file alone, and what is refused."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from posterity.core.errors import UsageError
from posterity.experiments.axes import Axis, field_range
from posterity.experiments.run import Run
from posterity.experiments.study import Study

MOONS = {"dataset": "two-moons", "model": "mlp", "hidden": [4], "epochs": 1}


def of(**given: object) -> Study:
    return Study.of({"run": MOONS, **given})


def column(study: Study, name: str) -> list[object]:
    return [item.config.get(name) for item in study.items.values()]


def test_grids_are_crossed_and_repeated_over_seeds():
    study = of(axes={"lr": [0.1, 0.2], "optimizer_options.momentum": [0.0, 0.9]}, seeds=2)
    found = [(i.config["lr"], i.config["optimizer_options.momentum"], i.config["seed"]) for i in study.items.values()]
    assert found == [(lr, mu, seed) for lr in (0.1, 0.2) for mu in (0.0, 0.9) for seed in (0, 1)]
    for key, item in study.items.items():
        assert key == item.key == item.run.key


def test_seeds_are_a_number_from_the_runs_own_or_a_list():
    assert column(Study.of({"run": {**MOONS, "seed": 7}, "seeds": 2}), "seed") == [7, 8]
    assert column(of(seeds=[3, 5]), "seed") == [3, 5]
    assert column(of(axes={"seed": [4, 9]}), "seed") == [4, 9]


def test_an_item_that_comes_twice_is_there_once():
    assert len(of(axes={"lr": [0.1, 0.1, 0.2]}).items) == 2


def test_more_draws_extend_fewer_and_cells_share_them():
    axes = {"optimizer": ["sgd", "adam"], "lr": {"log_uniform": [1e-4, 1.0]}}
    few, many = of(axes=axes, count=3), of(axes=axes, count=5)
    assert set(few.items) < set(many.items)
    rates = column(many, "lr")
    assert rates[:5] == rates[5:]
    assert len(set(rates)) == 5
    assert column(of(axes=axes, count=5, seed=1), "lr") != rates


@pytest.mark.parametrize(
    ("axis", "law"),
    [
        ({"uniform": [-1.0, 3.0]}, stats.uniform(-1, 4)),
        ({"log_uniform": [1e-3, 10.0]}, stats.loguniform(1e-3, 10)),
        ({"normal": 0.2}, stats.norm(0.2, 0.1)),
        ({"normal": 0.9, "low": 0.0, "high": 1.0}, stats.truncnorm(-2, 0.1 / 0.45, 0.9, 0.45)),
        ({"normal": -0.2, "high": 0.0}, stats.truncnorm(-np.inf, 2, -0.2, 0.1)),
    ],
)
def test_draws_follow_their_law(axis, law):
    draws = [Axis(**axis).draw(0, "x", number) for number in range(2000)]
    assert stats.kstest(draws, law.cdf).pvalue > 1e-3


def test_choices_are_drawn_evenly_and_lists_too_where_all_is_random():
    words = [Axis(choices=("a", "b", "c")).draw(0, "x", n) for n in range(900)]
    assert min(words.count(w) for w in "abc") > 240
    study = of(sampler="random", axes={"optimizer": ["sgd", "adam"], "lr": {"uniform": [0.1, 0.2]}}, count=8)
    assert len(study.items) == 8
    assert set(column(study, "optimizer")) == {"sgd", "adam"}


def test_a_normal_is_cut_to_the_fields_own_range():
    study = of(axes={"val_fraction": {"normal": 0.9}, "batch_size": {"normal": 2}}, count=200)
    shares, sizes = column(study, "val_fraction"), column(study, "batch_size")
    assert all(0 <= share < 1 for share in shares)
    assert all(isinstance(size, int) and size >= 1 for size in sizes)
    assert {1, 2, 3} <= set(sizes)
    assert field_range(Run.model_fields["lr"].metadata) == (5e-324, None)
    assert field_range(Run.model_fields["val_fraction"].metadata) == (0.0, math.nextafter(1.0, 0.0))


def test_cases_have_settings_and_axes_of_their_own():
    sgd = {"run": {"optimizer": "sgd"}, "axes": {"lr": {"normal": 0.1}}}
    study = of(cases=[sgd, {"run": {"optimizer": "adam"}, "axes": {"lr": [1e-3]}}], count=2)
    assert column(study, "optimizer") == ["sgd", "sgd", "adam"]
    assert column(study, "lr")[2] == 1e-3


def test_a_scale_lies_over_the_study():
    given = {
        "run": {**MOONS, "epochs": 50}, "axes": {"lr": [0.1, 0.2], "batch_size": [10]}, "seeds": 3,
        "scales": {"smoke": {"run": {"epochs": 1}, "axes": {"lr": [0.1]}, "seeds": 1}},
    }  # fmt: skip
    assert len(Study.of(given).items) == 6
    small = Study.of(given, scale="smoke")
    assert [(i.run.epochs, i.run.lr, i.run.batch_size) for i in small.items.values()] == [(1, 0.1, 10)]
    with pytest.raises(UsageError, match="Did you mean 'smoke'"):
        Study.of(given, scale="smoek")


def test_what_is_written_is_what_is_read(tmp_path: Path):
    study = of(
        name="both", count=2, axes={"lr": [None, 0.1], "tau": {"uniform": [0.5, 1]}, "hidden": [[4], [4, 4]]},
        record=["nll"],
    )  # fmt: skip
    study.write(tmp_path / "study.toml")
    again = Study.read(tmp_path)
    assert again == study
    assert again.items == study.items
    assert again.digest == study.digest


def test_a_file_gives_its_name_to_the_study(tmp_path: Path):
    (tmp_path / "rates.toml").write_text('run = {dataset = "two-moons"}\naxes = {lr = [0.1, "(none)"]}\n')
    study = Study.of(tmp_path / "rates.toml")
    assert study.name == "rates"
    assert column(study, "lr") == [0.1, None]


def test_functions_take_their_parameters():
    study = Study.of({"function": "exact_elbo", "parameters": {"num_data": 5}, "axes": {"width": [2, 4]}, "seeds": 2})
    assert [(i.config["width"], i.config["seed"], i.config["num_data"]) for i in study.items.values()] == [
        (2, 0, 5), (2, 1, 5), (4, 0, 5), (4, 1, 5),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"sceds": 3}, "Did you mean 'seeds'"),
        ({"run": {"lrr": 1}}, "Did you mean 'lr'"),
        ({"axes": {"optimizr": ["sgd"]}}, "Did you mean 'optimizer'"),
        ({"axes": {"lr": {"unifrom": [1, 2]}}}, "Did you mean 'uniform'"),
        ({"axes": {"lr": {"uniform": [1, "x"]}}, "count": 1}, "axes.lr.uniform.1: .*number"),
        ({"axes": {"lr": {"uniform": [2, 1]}}, "count": 1}, "the lower first"),
        ({"axes": {"lr": {"log_uniform": [0, 1]}}, "count": 1}, r"the lower \(above 0\) first"),
        ({"axes": {"lr": {"grid": [1], "normal": 2}}}, "grid and normal together"),
        ({"axes": {"lr": []}}, "empty"),
        ({"axes": {"lr": [-1]}}, "lr: Input should be greater than 0"),
        ({"axes": {"lr.x": [1]}}, "no table of options"),
        ({"axes": {"optimizer_options.momentum": {"normal": 0.9}}, "count": 1}, "give low and high"),
        ({"axes": {"lr": {"normal": 0.1}}}, "needs a count"),
        ({"axes": {"lr": [0.1]}, "count": 3}, "leave it out"),
        ({"axes": {"lr": {"normal": 0.1, "low": 50.0}}, "count": 1}, "next to nothing"),
        ({"sampler": "grid", "axes": {"lr": {"normal": 0.1}}, "count": 1}, "takes lists"),
        ({"seeds": 0}, "at least 1"),
        ({"prune": "median"}, "adaptive"),
        ({"sampler": "tpe", "axes": {"lr": [1]}, "count": 2}, "needs a metric"),
        ({"sampler": "tpe", "metric": "nll", "axes": {"lr": {"normal": 1}}, "count": 2}, "not a normal"),
        ({"sampler": "tpe", "metric": "nll", "prune": "median", "axes": {"lr": [1]}, "count": 2}, "every epoch has"),
        ({"function": "exact_elbo", "run": MOONS}, "one of runs or of a function"),
        ({"function": "exact_elb"}, "Did you mean 'exact_elbo'"),
        ({"function": "exact_elbo", "axes": {"widht": [1]}}, "Did you mean 'width'"),
        ({"function": "exact_elbo"}, "missing a required argument: 'width'"),
        ({"function": "exact_elbo", "parameters": {"width": "x"}}, "takes a whole number"),
        ({"parameters": {"width": 3}}, "go with a function"),
        ({"name": "a/b"}, "name: "),
    ],
)
def test_mistakes_are_named(given, said):
    with pytest.raises(UsageError, match=said):
        Study.of(given)


def test_a_file_that_is_not_there_or_not_toml(tmp_path: Path):
    with pytest.raises(UsageError, match="there is no study"):
        Study.of(tmp_path / "no.toml")
    (tmp_path / "bad.toml").write_text("seeds = = 3")
    with pytest.raises(UsageError, match="is not TOML"):
        Study.of(tmp_path / "bad.toml")


def test_ranges_are_what_is_drawn_whole_or_in_part() -> None:
    axes = {"optimizer_options.betas.0": {"uniform": [0.1, 0.9]}, "lr": {"normal": 0.1}, "optimizer": ["adam", "radam"]}
    study = Study.of({"run": {"optimizer_options": {"betas": [0.9, 0.99]}}, "axes": axes, "count": 2})
    assert study.ranges == {"optimizer_options.betas.0", "optimizer_options.betas", "lr"}
