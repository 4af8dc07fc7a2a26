"""`posterity`: the commands by name, and how errors become exit codes.

Exit codes: 0 ok, 1 the run failed, 2 wrong usage, 3 some of a sweep's runs failed, 4 corrupt or untrusted file, 130 and
143 on signals.
Results go to stdout (with --json as JSON), everything else to stderr.
"""

from __future__ import annotations

import sys
import warnings
from typing import Any, cast

import typer

from posterity import __version__
from posterity.cli import gradient_variance, range_test, train, uci
from posterity.cli.compare import compare_command
from posterity.cli.config import config_app
from posterity.cli.data import data_app
from posterity.cli.demo import demo
from posterity.cli.evaluate import evaluate_command
from posterity.cli.landscape import landscape_command
from posterity.cli.output import note
from posterity.cli.penalty import penalty_command
from posterity.cli.predict import predict_command
from posterity.cli.reproduce import reproduce_command
from posterity.cli.sweep import sweep_app
from posterity.core.errors import PosterityError

app = typer.Typer(
    name="posterity",
    help="Bayesian neural networks by variational inference.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("train")(train.COMMAND)
app.command("evaluate")(evaluate_command)
app.command("predict")(predict_command)
app.command("range-test")(range_test.COMMAND)
app.command("uci")(uci.COMMAND)
app.command("penalty")(penalty_command)
app.command("gradient-variance")(gradient_variance.COMMAND)
app.command("compare")(compare_command)
app.command("landscape")(landscape_command)
app.command("reproduce")(reproduce_command)
app.command("demo")(demo)
app.add_typer(config_app, name="config")
app.add_typer(data_app, name="data")
app.add_typer(sweep_app, name="sweep")


def _version(value: bool) -> None:
    if value:
        typer.echo(f"posterity {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Show the version."),
) -> None:
    """Bayesian neural networks by variational inference."""


def _show_warning(message: Any, *_: Any, **__: Any) -> None:
    note(f"warning: {message}")


# Typer's refusals of flags, whichever click it comes with.
REFUSED = cast(type[Exception], next(k for k in typer.BadParameter.__mro__ if k.__name__ == "ClickException"))


def main() -> None:
    """Run the command line; errors become one line on stderr and an exit code."""
    warnings.showwarning = _show_warning
    try:
        code = app(prog_name="posterity", standalone_mode=False)
    except PosterityError as error:
        note(f"error: {error}")
        code = error.exit_code
    except REFUSED as error:
        code = _refuse(error)
    except OSError as error:  # a full disk, a directory that may not be written
        note(f"error: {error}")
        code = 1
    except (KeyboardInterrupt, typer.Abort):
        code = 130
    if code == 130:
        note("interrupted")
    sys.exit(code if isinstance(code, int) else 0)


def _refuse(error: Any) -> int:
    """Say in one line what is wrong with the arguments, and where to look them up; without any, show the help."""
    context = getattr(error, "ctx", None)
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()
    else:
        where = "posterity" if context is None else context.command_path
        note(f"error: {' '.join(error.format_message().split()).rstrip('.')}; see {where} --help")
    return int(error.exit_code)
