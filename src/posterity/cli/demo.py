"""`posterity demo`: a Bayesian network beside the same one trained frequentist."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from posterity.cli.flags import SAMPLES
from posterity.cli.output import note, print_json, print_table, show

COLUMNS = ("accuracy", "nll", "ece", "confidence")


def demo(
    out: Annotated[Path, typer.Option(help="directory for the two runs and the figures")] = Path("runs/demo"),
    epochs: Annotated[int, typer.Option(min=1, help="epochs of each network")] = 60,
    samples: Annotated[int, typer.Option(min=1, help="weight samples")] = SAMPLES,
    seed: Annotated[int, typer.Option(min=0, help="seed of all randomness")] = 0,
    json: Annotated[bool, typer.Option("--json", help="results as JSON on stdout")] = False,
) -> None:
    """Train LeNet-5 on the embedded digits, Bayesian and frequentist, and compare them on test data and noise.

    Example: posterity demo --out runs/demo
    """
    from posterity.experiments import NOISE, demo_runs, execute
    from posterity.report import write_evaluation_figures, write_figures

    records = {}
    for name, run in demo_runs(epochs, seed).items():
        note(f"{name} network:")
        folder = out / name.lower()
        records[name] = execute(run, folder, overwrite=True, progress=True, samples=samples, ood=[NOISE])
    curves = [write_figures(record)[0] for record in records.values()]
    figures = write_evaluation_figures(out / "figures", records)
    if json:
        print_json({name: record.numbers() for name, record in records.items()})
    else:
        rows = [
            [name, *(show(c, r.test[c]) for c in COLUMNS), show("confidence", r.evaluation["ood"][NOISE]["confidence"])]
            for name, r in records.items()
        ]
        header = ["network", *(f"{c} (test)" for c in COLUMNS), "confidence (noise)"]
        print_table("LeNet-5 on digits: test data and Gaussian noise", header, rows)
    for figure in [*figures, *curves]:
        note(f"figure: {figure}")
