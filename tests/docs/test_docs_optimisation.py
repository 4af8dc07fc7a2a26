"""The guide's command lines run, on small data."""

import re
import shlex
from pathlib import Path

import pytest

from posterity.optim import OPTIMIZERS, SCHEDULES

GUIDE = (Path(__file__).parents[2] / "docs" / "optimisation.md").read_text(encoding="utf-8")
LINES = re.findall(r"^posterity .*$", GUIDE, flags=re.MULTILINE)
SMALL = {"--dataset": "digits", "--model": "mlp"}


def test_there_are_lines():
    assert len(LINES) == 10
    assert all("--dataset cifar10 --model lenet5" in line for line in LINES)


@pytest.mark.parametrize("line", LINES)
def test_a_line_runs(cli, line, tmp_path):
    words = shlex.split(line)[1:]
    for flag, value in SMALL.items():
        words[words.index(flag) + 1] = value
    words += ["--hidden", "8"]
    words += ["--epochs", "2", "--quiet"] if words[0] == "train" else ["--steps", "12"]
    done = cli(*words)
    assert done.code == 0, done.err
    result = tmp_path / words[words.index("--out" if words[0] == "train" else "--figure") + 1]
    assert (result / "figures" / "training.png" if words[0] == "train" else result).is_file()
    assert (result / "figures" / "yellowfin.png").is_file() == ("yellowfin" in line)


def test_the_tables_are_complete():
    for name in OPTIMIZERS:
        assert f"`{name}`" in GUIDE, name
    for name in SCHEDULES:
        assert f"| `{name}`" in GUIDE, name


def test_the_default_rates_are_right():
    rows = [row.split("|")[1:3] for row in GUIDE.splitlines() if row.startswith("| `")]
    for names, rates in rows:
        listed = [name for name in re.findall(r"`([a-z-]+)`", names) if name in OPTIMIZERS]
        given = [float(rate) for rate in rates.split("/")] if listed else []
        for name, rate in zip(listed, given * len(listed) if len(given) == 1 else given, strict=True):
            assert OPTIMIZERS[name].lr == rate, name
    for name, rate in re.findall(r"`([a-z]+)` \(([\d.e-]+)\)", GUIDE):
        assert OPTIMIZERS[name].lr == float(rate), name
