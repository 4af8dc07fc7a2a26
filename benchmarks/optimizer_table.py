"""Every registered optimiser at its default rate on a Bayesian LeNet-5: 3 epochs of MNIST.

    python benchmarks/optimizer_table.py --runs runs/optimizers --out docs/benchmarks

Batch 100, cosine schedule, Kaiming prior, rho -5, temperature 0.1, 20 weight samples in the evaluation, seed 0.
Langevin dynamics moves a point network, with a rate that falls slowly, and is evaluated by the samples that it
collects in the second half; its kl is the mean of -log prior over them.
The milliseconds are those of these runs on a shared machine, good for an order of magnitude: speed is compared in
optimizers.md, interleaved. Resumable: finished runs are not computed again.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from posterity.experiments import Run
from posterity.training.methods import METHODS
from runs import measure_all, publish

LANGEVIN = {"posterior": "point", "schedule": "polynomial", "average": "samples", "average_every": 30}


def table_runs(dataset: str, epochs: int) -> Iterator[tuple[str, Run]]:
    """A run for each optimiser."""
    common = {"dataset": dataset, "model": "lenet5", "epochs": epochs, "temperature": 0.1, "val_fraction": 0.0}
    for name, method in METHODS.items():
        start = {} if method.collects else {"rho": -5.0}
        options = {"prior_scale": "kaiming", **start, **(LANGEVIN if method.collects else {})}
        yield name, Run.of(**common, optimizer=name, **options)


def table(found: dict[str, dict[str, Any]]) -> str:
    """Markdown, a row an optimiser."""
    lines = ["| optimiser | default rate | ms a step | accuracy | nll | ECE | kl |", "|---" * 7 + "|"]
    for name, result in found.items():
        if "failed" in result:
            lines.append(f"| {name} | | failed: {result['failed']} | | | | |")
            continue
        score = result.get("average", result["last"])
        rate = "by data" if METHODS[name].collects else f"{METHODS[name].default_lr:g}"
        numbers = f"{100 * score['accuracy']:.2f} % | {score['nll']:.4f} | {score['ece']:.4f} | {score['kl']:.3g}"
        lines.append(f"| {name} | {rate} | {result['milliseconds']:.1f} | {numbers} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dataset", default="mnist")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--runs", type=Path, default=Path("runs/optimizers"))
    parser.add_argument("--out", type=Path, help="folder for optimizer_table.md and .json")
    args = parser.parse_args()
    found = measure_all(table_runs(args.dataset, args.epochs), args.runs)
    publish("optimizer_table", __doc__, table(found), found, args.out)


if __name__ == "__main__":
    main()
