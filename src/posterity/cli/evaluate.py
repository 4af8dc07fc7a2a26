"""`posterity evaluate`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from posterity.cli.flags import SAMPLES
from posterity.cli.output import note, print_json, print_metrics


def evaluate_command(
    run: Annotated[Path, typer.Argument(help="the run's directory")],
    samples: Annotated[int, typer.Option(min=1, help="weight samples")] = SAMPLES,
    ood: Annotated[
        list[str] | None,
        typer.Option(help="data set to tell apart from the test data, or 'noise'; may be repeated"),
    ] = None,
    module: Annotated[str | None, typer.Option(help="network of a run from Python: package.module:name")] = None,
    data: Annotated[
        Path | None, typer.Option(help=".npz or .csv to evaluate on, all of it, instead of the run's test data")
    ] = None,
    target: Annotated[str | None, typer.Option(help="target column of that .csv; the last one by default")] = None,
    seed: Annotated[int, typer.Option(min=0, help="seed of the weight samples and the noise")] = 0,
    json: Annotated[bool, typer.Option("--json", help="results as JSON on stdout")] = False,
) -> None:
    """Evaluate a trained run on its test data and, with --ood, on data from elsewhere.

    Example: posterity evaluate runs/first --samples 50 --ood noise
    """
    from posterity.data import read_dataset
    from posterity.experiments import evaluate_run, load_run, module_named
    from posterity.report import write_figures

    model = None if module is None else module_named(module)
    test = None
    if data is not None:
        known = load_run(run, model)
        test = read_dataset(data, target=target, task=known.task, columns=known.columns, classes=known.classes)
    record = evaluate_run(run, samples=samples, seed=seed, ood=ood or [], model=model, test=test)
    if not record.finished:
        note(f"warning: the run in {run} has not finished; this is its newest checkpoint")
    figures = write_figures(record)
    if json:
        print_json({"run": str(run), **record.evaluation})
        return
    print_metrics(f"{record.run.network_name} on {record.run.dataset}, {samples} weight samples", record.columns())
    if record.by_class:
        print_metrics("test data by class", record.by_class)
    for figure in figures:
        note(f"figure: {figure}")
