"""Help costs no more than what it shows: neither torch nor anything that brings it is imported for it."""

import os
import subprocess
import sys

import pytest
import typer

from posterity.cli.app import app

SHOW = """
import sys
from posterity.cli import main
try:
    main()
except SystemExit as error:
    assert error.code in (0, None), error.code
heavy = {"torch", "numpy", "scipy", "sklearn", "matplotlib", "optuna"} & set(sys.modules)
assert not heavy, heavy
"""


def _commands(command, place=()):
    yield place
    for name, inner in getattr(command, "commands", {}).items():
        yield from _commands(inner, (*place, name))


COMMANDS = [" ".join(place) for place in _commands(typer.main.get_command(app))]


@pytest.mark.parametrize("command", COMMANDS)
def test_help_imports_nothing_heavy(command):
    done = subprocess.run(
        [sys.executable, "-c", SHOW, *command.split(), "--help"],
        env={**os.environ, "COLUMNS": "100"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert "Usage: posterity" in done.stdout


def test_every_command_is_looked_at():
    assert {"", "train", "sweep status", "config show", "data list", "reproduce"} <= set(COMMANDS)
