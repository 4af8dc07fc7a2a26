"""`posterity sweep`: a file or a command, exit codes, signals, workers that are replaced, what is printed where."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from posterity.experiments import Results
from posterity.experiments.row import FINISHED

DESCENT = {
    "function": "quadratic_descent",
    "axes": {"lr": [0.1, 0.5, 3.0]},
    "scales": {"smoke": {"axes": {"lr": [0.5]}}},
}
MOONS = {"dataset": "two-moons", "model": "mlp", "hidden": [4], "epochs": 1, "val_fraction": 0.2}


@pytest.fixture
def study(tmp_path: Path) -> Callable[[Any], Path]:
    def write(values: dict[str, Any]) -> Path:
        path = tmp_path / "rates.toml"
        path.write_text(tomli_w.dumps(values))
        return path

    return write


@pytest.mark.parametrize("command", ["run", "worker", "status", "best", "export"])
def test_every_command_has_help_with_an_example(cli, command):
    done = cli("sweep", command, "--help")
    assert done.code == 0
    assert "Example: posterity sweep" in done.out
    assert command == "worker" or "--json" in done.out


def test_a_file_stands_for_run_and_the_folder_for_the_study(cli, study, tmp_path):
    done = cli("sweep", study(DESCENT), "--json", "--quiet")
    assert done.code == 0, done.err
    assert done.json["states"] == {"finished": 3}
    assert [row["lr"] for row in done.json["rows"]] == [0.1, 0.5, 3.0]
    assert done.err == ""
    folder = "runs/rates"
    assert cli("sweep", "status", folder).out == "3 finished of 3\n"
    assert cli("sweep", "status", folder, "--json").json["items"] == 3
    best = cli("sweep", "best", folder, "--metric", "factor", "--count", 2, "--json").json
    assert [row["lr"] for row in best["rows"]] == [0.5, 0.1]
    assert (best["metric"], best["lowest"]) == ("factor", True)
    highest = cli("sweep", "best", folder, "--metric", "factor", "--highest", "--json").json
    assert highest["rows"][0]["lr"] == 3.0
    assert "0.5" in cli("sweep", "best", folder).out
    for name in ("t.csv", "t.json", "t.parquet"):
        assert cli("sweep", "export", folder, "--out", name, "--json").json == {"file": name, "rows": 3}
    with (tmp_path / "t.csv").open() as file:
        assert [row["lr"] for row in csv.DictReader(file)] == ["0.1", "0.5", "3.0"]


def test_progress_is_lines_on_stderr_and_the_table_on_stdout(cli, study):
    done = cli("sweep", "run", study(DESCENT), "--out", "out")
    assert done.code == 0
    assert "rates: 1/3" in done.err
    assert "left" in done.err
    assert "rates: 3/3" in done.err
    assert "mean ± standard error" in done.out


def test_the_table_for_people_has_no_line_for_each_draw(cli, study):
    drawn = {**DESCENT, "count": 3, "axes": {"lr": {"uniform": [0.1, 0.5]}, "momentum": [0.0, 0.5]}, "scales": {}}
    done = cli("sweep", study(drawn), "--out", "out")
    assert done.code == 0, done.err
    table = [line.split() for line in done.out.splitlines() if line.startswith("│")]
    assert [(line[1], line[3]) for line in table] == [("0.0", "3"), ("0.5", "3")]
    assert "nan" not in done.out


def test_a_scale_is_picked(cli, study):
    done = cli("sweep", study(DESCENT), "--out", "out", "--scale", "smoke", "--json")
    assert done.json["states"] == {"finished": 1}
    wrong = cli("sweep", study(DESCENT), "--out", "out", "--scale", "papr")
    assert wrong.code == 2
    assert "unknown scale 'papr'" in wrong.err


def test_bad_runs_end_with_3_and_say_why(cli, study):
    path = study(
        {"run": {**MOONS, "optimizer": "sgd", "schedule": "constant"}, "axes": {"lr": [0.1, 1e38]}, "samples": 2}
    )
    done = cli("sweep", path, "--out", "out", "--json")
    assert done.code == 3
    assert done.json["states"] == {"finished": 1, "diverged": 1}
    assert "1 of 2 failed or diverged" in done.err
    status = cli("sweep", "status", "out", "--json").json
    assert list(status["states"]) == ["finished", "diverged"]
    assert "step" in next(iter(status["errors"].values()))
    assert cli("sweep", path, "--out", "out", "--quiet").code == 3  # it stays on record


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("sceds = 3\n", "Did you mean 'seeds'"),
        ("seeds = = 3\n", "is not TOML"),
        ("[run]\noptimizer = 'adamm'\n", "Did you mean 'adam'"),
        ("[axes]\nlr = 3\n", "axes.lr"),
    ],
)
def test_mistakes_end_with_2(cli, tmp_path, text, said):
    (tmp_path / "s.toml").write_text(text)
    done = cli("sweep", "s.toml")
    assert done.code == 2
    assert said in done.err
    assert "s.toml" in done.err
    assert not (tmp_path / "runs").exists()


def test_what_is_not_there_ends_with_2(cli, tmp_path):
    assert cli("sweep", "no.toml").code == 2
    assert cli("sweep", "status", "nowhere").code == 2
    (tmp_path / "file").write_text("")
    (tmp_path / "s.toml").write_text("function = 'quadratic_descent'\nparameters = {lr = 0.1}\n")
    done = cli("sweep", "s.toml", "--out", "file")
    assert done.code == 2
    assert "is a file" in done.err


def children(process: int) -> list[int]:
    return [int(number) for number in Path(f"/proc/{process}/task/{process}/children").read_text().split()]


class Command:
    """`posterity sweep` in a process of its own, with workers, which does not outlive the test."""

    def __init__(self, *arguments: object) -> None:
        command = [sys.executable, "-m", "posterity", "sweep", *map(str, arguments)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def workers(self) -> list[int]:
        return [worker for pool in children(self.process.pid) for worker in children(pool)]

    def wait_for(self, condition: Callable[[], bool]) -> None:
        limit = time.monotonic() + 120
        while not condition():
            assert self.process.poll() is None, self.process.communicate()
            assert time.monotonic() < limit
            time.sleep(0.01)

    def finish(self) -> tuple[int, str, str]:
        out, err = self.process.communicate(timeout=120)
        return self.process.returncode, out, err


@pytest.fixture
def start() -> Iterator[Callable[..., Command]]:
    begun: list[Command] = []

    def run(*arguments: object) -> Command:
        begun.append(Command(*arguments))
        return begun[-1]

    yield run
    for command in begun:
        if command.process.poll() is None:
            command.process.terminate()
            command.finish()


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="children are found in /proc")
def test_a_sweep_is_stopped_gone_on_with_and_outlives_a_killed_worker(start, study, tmp_path):
    """One sweep of two workers: SIGTERM; then the same command, a worker of which is killed and replaced."""
    long = {**MOONS, "epochs": 300, "val_fraction": 0.0}
    path, out = study({"run": long, "seeds": 3, "samples": 2}), tmp_path / "out"
    first = start(path, "--out", out, "--workers", 2, "--quiet")
    first.wait_for(lambda: len([*out.glob("items/*/history.jsonl")]) == 2)
    workers = first.workers()
    assert len(workers) == 2
    first.process.send_signal(signal.SIGTERM)
    code, printed, errors = first.finish()
    assert (code, printed) == (143, ""), errors
    assert "the same command goes on with it" in errors
    assert not any(Path(f"/proc/{worker}").exists() for worker in workers)
    begun = {path: len(path.read_text().splitlines()) for path in out.glob("items/*/history.jsonl")}
    second = start(path, "--out", out, "--workers", 2, "--json", "--quiet")
    second.wait_for(lambda: any(len(p.read_text().splitlines()) > n for p, n in begun.items()))
    os.kill(second.workers()[0], signal.SIGKILL)
    code, printed, errors = second.finish()
    assert code == 0, errors
    assert json.loads(printed)["states"] == {"finished": 3}
    results = Results.read(out)
    assert [row.state for row in results] == [FINISHED] * 3
    assert [[record["epoch"] for record in row.history] for row in results] == [[*range(1, 301)]] * 3
    assert {path.name for path in out.glob("logs/*")} == {"pool.log", "worker-1.log", "worker-2.log"}


BROKEN = """
import sys
from posterity.cli import main
from posterity.core.errors import PosterityError
from posterity.experiments import pool

def broken(*_):
    raise PosterityError("no storage today")

pool.Leases = broken
main()
"""


def test_workers_that_cannot_begin_end_the_sweep_with_their_reason(study, tmp_path):
    command = [sys.executable, "-c", BROKEN, "sweep", str(study(DESCENT)), "--out", str(tmp_path / "out"), "--quiet"]
    done = subprocess.run([*command, "--workers", "2"], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1, done.stderr
    assert "ended with code 1: no storage today" in done.stderr


def test_a_storage_that_is_none_ends_with_2(cli, study):
    for storage in ("here", "nosuch://host/database"):
        done = cli("sweep", study(DESCENT), "--out", "out", "--storage", storage, "--quiet")
        assert done.code == 2
        assert "an address such as" in done.err
