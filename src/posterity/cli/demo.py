"""`posterity demo`: a Bayesian network beside the same one trained frequentist."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from posterity.cli.output import note, print_json, print_table, show
from posterity.experiments import demo_runs, evaluate, load_run, train_run
from posterity.experiments.evaluate import NOISE
from posterity.report import write_evaluation_figures, write_training_figure

COLUMNS = ("accuracy", "nll", "ece", "confidence")


def demo(
    out: Annotated[Path, typer.Option(help="directory for the two runs and the figures")] = Path("runs/demo"),
    epochs: Annotated[int, typer.Option(min=1, help="epochs of each network")] = 60,
    samples: Annotated[int, typer.Option(min=1, help="weight samples")] = 50,
    seed: Annotated[int, typer.Option(min=0, help="seed of all randomness")] = 0,
    json: Annotated[bool, typer.Option("--json", help="results as JSON on stdout")] = False,
) -> None:
    """Train LeNet-5 on the embedded digits, Bayesian and frequentist, and compare them on test data and noise.

    Example: posterity demo --out runs/demo
    """
    evaluations = {}
    for name, run in demo_runs(epochs, seed).items():
        note(f"{name} network:")
        train_run(run, out / name.lower(), overwrite=True, progress=True)
        write_training_figure(out / name.lower())
        trained = load_run(out / name.lower())
        evaluations[name] = evaluate(trained, samples=samples, seed=seed, ood=[NOISE])
    figures = write_evaluation_figures(out / "figures", evaluations)
    if json:
        print_json({name: e.as_dict() for name, e in evaluations.items()})
    else:
        rows = [
            [name, *(show(c, e.test[c]) for c in COLUMNS), show("confidence", e.shifted[NOISE]["confidence"])]
            for name, e in evaluations.items()
        ]
        header = ["network", *(f"{c} (test)" for c in COLUMNS), "confidence (noise)"]
        print_table("LeNet-5 on digits: test data and Gaussian noise", header, rows)
    for figure in [*figures, *(out / n.lower() / "figures" / "training.png" for n in evaluations)]:
        note(f"figure: {figure}")
