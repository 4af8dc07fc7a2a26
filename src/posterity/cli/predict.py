"""`posterity predict`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from posterity.cli.flags import SAMPLES
from posterity.cli.output import note, print_json


def predict_command(
    run: Annotated[Path, typer.Argument(help="the run's directory")],
    inputs: Annotated[Path, typer.Argument(help=".npz (array x), .csv or .csv.gz with the inputs")],
    out: Annotated[Path, typer.Option(help=".csv or .npz to write")],
    samples: Annotated[int, typer.Option(min=1, help="weight samples")] = SAMPLES,
    target: Annotated[str | None, typer.Option(help="column of the .csv to leave out")] = None,
    average: Annotated[bool, typer.Option("--average", help="with the average of the run's iterates")] = False,
    module: Annotated[str | None, typer.Option(help="network of a run from Python: package.module:name")] = None,
    seed: Annotated[int, typer.Option(min=0, help="seed of the weight samples")] = 0,
    json: Annotated[bool, typer.Option("--json", help="a summary as JSON on stdout")] = False,
) -> None:
    """Predict for new inputs: mean or class probabilities, with their uncertainty.

    Example: posterity predict runs/first images.npz --out predictions.csv
    """
    from posterity.data import read_inputs
    from posterity.experiments import load_run, module_named, write_predictions

    trained = load_run(run, None if module is None else module_named(module))
    if average:
        trained = trained.average()
    x = read_inputs(inputs, target=target, columns=trained.columns)
    prediction = trained.predict(x, samples, seed=seed)
    write_predictions(out, prediction, trained.classes)
    if json:
        found = {"run": str(run), "out": str(out), "rows": len(prediction), "samples": samples, "seed": seed}
        print_json(found | ({"classes": list(trained.classes)} if trained.classes else {}))
    else:
        note(f"{len(prediction)} predictions written to {out}")
