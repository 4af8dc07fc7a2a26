"""`posterity range-test`."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Annotated, Any

import typer

from posterity.cli.output import note, print_json
from posterity.cli.train import configure, parse, run_options, set_options
from posterity.experiments.build import build_data, build_network
from posterity.report import rate_curve, save
from posterity.training import RangeTest, range_test

LABELS = {"nll": "nll per datum (nats)", "loss": "negative ELBO per datum (nats)"}
EARLY = 100.0  # times --low: before it there are too few steps to fall


def range_test_command(**options: Any) -> None:
    """Find a learning rate: raise it exponentially from --low to --high and see where the loss falls and breaks.

    Example: posterity range-test --dataset digits --model lenet5 --temperature 0.1 --figure range.png
    """
    group, low, high, steps = (options.pop(name) for name in ("group", "low", "high", "steps"))
    figure: Path = options.pop("figure")
    as_json = options.pop("json")
    given = {name: parse(name, value) for name, value in options.items() if value is not None}
    run = configure(given, config=None, resume_from=None)
    parts = build_data(run)
    net = build_network(run, parts.train)
    result = range_test(net, parts.train, group=group, low=low, high=high, steps=steps, **run.settings())
    title = f"{run.model} on {run.dataset}, {run.optimizer}, group: {group}"
    curve = rate_curve(
        result.rates,
        result.losses,
        result.smoothed,
        result.suggestion,
        label=LABELS[result.measure],
        diverged=result.diverged,
        title=title,
    )
    save(curve, figure)
    if as_json:
        print_json(vars(result))
        return
    print(_verdict(result, low, high))
    note(f"figure: {figure}")


def _verdict(result: RangeTest, low: float, high: float) -> str:
    broke = "" if result.diverged is None else f"; it diverged at {result.diverged:.2g}"
    if result.suggestion is not None:
        return f"suggested learning rate: {result.suggestion:.2g}{broke}"
    attempts = ["a lower --temperature", "a larger --batch-size", "more --steps"]
    if result.diverged is None:
        attempts.insert(0, "a higher --high")
    elif result.diverged < EARLY * low:
        attempts.insert(0, "a lower --low")
    hint = f"{', '.join(attempts[:-1])} or {attempts[-1]}"
    return f"no clear fall of the {result.measure} between {low:.2g} and {high:.2g}{broke}: try {hint}"


def _options() -> list[inspect.Parameter]:
    extra: dict[str, tuple[Any, Any]] = {
        "group": (Annotated[str, typer.Option(help="all, mean, sd or deterministic")], "all"),
        "low": (Annotated[float, typer.Option(help="first rate")], 1e-6),
        "high": (Annotated[float, typer.Option(help="last rate")], 1.0),
        "steps": (Annotated[int, typer.Option(help="number of steps")], 100),
        "figure": (Annotated[Path, typer.Option(help="the PNG to write")], Path("range-test.png")),
        "json": (Annotated[bool, typer.Option("--json", help="results as JSON on stdout")], False),
    }
    kind = inspect.Parameter.KEYWORD_ONLY
    own = [inspect.Parameter(n, kind, default=v, annotation=a) for n, (a, v) in extra.items()]
    return [*run_options(), *own]


set_options(range_test_command, _options())
