import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
WARNINGS = ["-W", "error", "-W", "ignore:the standard deviations have not arrived"]  # here they are trained too little
# service.py has tests of its own
SMALL = {
    "own_loop.py": ["--steps", "200"],
    "adabayes_cnn.py": ["--epochs", "1"],
    "housing.py": ["--rows", "200", "--epochs", "20"],
    "poisson.py": ["--epochs", "5"],
    "text_attention.py": ["--epochs", "3", "--rows", "200"],
    "frozen_body.py": ["--epochs", "5", "--steps", "50"],
}
PROMISED = {"frozen_body.py": "the body is unchanged: True", "text_attention.py": "new reviews: accuracy"}


def test_every_example_is_run():
    assert {path.name for path in EXAMPLES.glob("*.py")} == {*SMALL, "service.py"}


@pytest.mark.parametrize("name", SMALL)
def test_runs(name):
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, *WARNINGS, str(EXAMPLES / name), *SMALL[name]]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
    assert PROMISED.get(name, "") in done.stdout
