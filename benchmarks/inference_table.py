"""Estimator x gradient kind x averaging on LeNet-5: 5 epochs of MNIST and of CIFAR-10.

    python benchmarks/inference_table.py --runs runs/inference --out docs/benchmarks

Adam 1e-3, batch 100, Kaiming prior, rho -5, temperature 0.1, one weight sample in a step, 20 in the evaluation, seed 0.
Each training is evaluated where it ended and by averages of its second half (every 50 steps): SWA, of the means alone,
and HWA with the total covariance. The milliseconds are those of these runs on a shared machine, good for an order of
magnitude: speed is compared in step_time.md, interleaved. Resumable: finished runs are not computed again.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from posterity.experiments import Run
from runs import measure_all, publish

ESTIMATORS = ("sample", "local", "flipout")
KINDS = ("analytic", "total", "path", "score")
WEIGHTS = {"last": "last", "swa": "SWA", "average": "HWA"}


def table_runs(dataset: str, epochs: int) -> Iterator[tuple[str, Run]]:
    """A run for each combination; the score estimator needs shared weights."""
    common = {"dataset": dataset, "model": "lenet5", "epochs": epochs, "temperature": 0.1, "val_fraction": 0.0}
    for estimator in ESTIMATORS:
        for kind in KINDS:
            if kind == "score" and estimator != "sample":
                continue
            options = {"estimator": estimator, "gradient": kind, "average": "hwa", "average_every": 50}
            yield f"{dataset}, {estimator}, {kind}", Run.of(**common, **options)


def table(found: dict[str, dict[str, Any]]) -> str:
    """Markdown: what the training ended with (once), and each average."""
    head = "| data | estimator | gradient | weights | accuracy | nll | ECE | kl | ms a step |"
    lines = [head, "|---" * 9 + "|"]
    for label, result in found.items():
        start = "| " + " | ".join(label.split(", ")) + " |"
        if "failed" in result:
            lines.append(f"{start} | failed: {result['failed']} | | | | |")
            continue
        for name, title in WEIGHTS.items():
            score = result[name]
            numbers = f"{100 * score['accuracy']:.2f} % | {score['nll']:.4f} | {score['ece']:.4f} | {score['kl']:.3g}"
            cost = f"{result['milliseconds']:.1f}" if name == "last" else ""
            lines.append(f"{start} {title} | {numbers} | {cost} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--datasets", nargs="+", default=["mnist", "cifar10"])
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--runs", type=Path, default=Path("runs/inference"))
    parser.add_argument("--finished", action="store_true", help="compute nothing: the table of what there is")
    parser.add_argument("--out", type=Path, help="folder for inference_table.md and .json")
    args = parser.parse_args()
    found: dict[str, dict[str, Any]] = {}
    for dataset in args.datasets:
        found |= measure_all(table_runs(dataset, args.epochs), args.runs, finished=args.finished)
    publish("inference_table", __doc__, table(found), found, args.out)


if __name__ == "__main__":
    main()
