"""Estimator x gradient kind x averaging on LeNet-5: 5 epochs of MNIST and of CIFAR-10.

    python benchmarks/inference_table.py --runs runs/inference --out docs/benchmarks

Adam 1e-3, batch 100, Kaiming prior, rho -5, temperature 0.1, one weight sample in a step, 20 in the evaluation, seed 0.
Each training is evaluated where it ended and by averages of its second half (every 50 steps): SWA, of the means alone,
and HWA with the total covariance. `time` is that of a step over plain PyTorch's (eager, default Adam), both
going through the training set, interleaved: median [quartiles]. The rate falls to 0 (cosine), which leaves averages
little to take away: what they do at a constant rate is in docs/averaging.md. Resumable: finished runs are not computed
again.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from itertools import cycle
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from interleave import Ratio, measure, ratios
from posterity.data import Dataset
from posterity.experiments import Run
from posterity.experiments.build import build_data, build_module, build_network
from posterity.objectives import negative_elbo
from posterity.optim import build_optimizer
from runs import measure_all, publish

ESTIMATORS = ("sample", "local", "flipout")
KINDS = ("analytic", "total", "path", "score")
Step = Callable[[Tensor, Tensor], None]
WEIGHTS = {"last": "last", "swa": "SWA", "average": "HWA"}


def table_runs(dataset: str, epochs: int) -> Iterator[tuple[str, Run]]:
    """A run for each combination; the score estimator needs shared weights."""
    common = {"dataset": dataset, "model": "lenet5", "epochs": epochs, "temperature": 0.1, "val_fraction": 0.0}
    common |= {"optimizer": "adam", "lr": 1e-3, "lr_sd": 1e-3, "prior_scale": "kaiming", "rho": -5.0}
    for estimator in ESTIMATORS:
        for kind in KINDS:
            if kind == "score" and estimator != "sample":
                continue
            options = {"estimator": estimator, "gradient": kind, "average": "hwa", "average_every": 50}
            yield f"{dataset}, {estimator}, {kind}", Run.of(**common, **options)


def plain_step(run: Run, train: Dataset) -> Step:
    """One step of the same network in plain PyTorch."""
    model = build_module(run, train.input_shape, train.num_outputs)
    optimizer = torch.optim.Adam(model.parameters())

    def step(x: Tensor, y: Tensor) -> None:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()

    return step


def our_step(run: Run, train: Dataset) -> Step:
    """One step of `run`."""
    net = build_network(run, train)
    likelihood = net.likelihood
    assert likelihood is not None
    optimizer = build_optimizer("adam", [{"params": net.parameters()}])
    settings: dict[str, Any] = {
        "num_data": len(train),
        "temperature": 0.1,
        "estimator": run.estimator,
        "gradient": run.gradient,
    }

    def step(x: Tensor, y: Tensor) -> None:
        optimizer.zero_grad()
        negative_elbo(net, likelihood, x, y, **settings).backward()
        optimizer.step()

    return step


def step_times(dataset: str, epochs: int, rounds: int) -> dict[str, Ratio]:
    """A step's time by label, relative to plain PyTorch, each going through all batches."""
    runs = dict(table_runs(dataset, epochs))
    first = next(iter(runs.values()))
    train = build_data(first).train
    batches = list(zip(train.x.split(first.batch_size), train.y.split(first.batch_size), strict=True))
    steps = {label: our_step(run, train) for label, run in runs.items()}
    steps["plain"] = plain_step(first, train)
    return ratios(measure({name: _through(step, cycle(batches)) for name, step in steps.items()}, rounds, 3), "plain")


def _through(step: Step, batches: Iterator[tuple[Tensor, Tensor]]) -> Callable[[], None]:
    return lambda: step(*next(batches))


def table(found: dict[str, dict[str, Any]]) -> str:
    """Markdown: what the training ended with (once), and each average."""
    head = "| data | estimator | gradient | weights | accuracy | nll | ECE | kl | time |"
    lines = [head, "|---" * 9 + "|"]
    for label, result in found.items():
        start = "| " + " | ".join(label.split(", ")) + " |"
        if "failed" in result:
            lines.append(f"{start} | failed: {result['failed']} | | | | |")
            continue
        for name, title in WEIGHTS.items():
            score = result[name]
            numbers = f"{100 * score['accuracy']:.2f} % | {score['nll']:.4f} | {score['ece']:.4f} | {score['kl']:.3g}"
            cost = result["time"] if name == "last" else ""
            lines.append(f"{start} {title} | {numbers} | {cost} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--datasets", nargs="+", default=["mnist", "cifar10"])
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--runs", type=Path, default=Path("runs/inference"))
    parser.add_argument("--rounds", type=int, default=40, help="of the interleaved steps")
    parser.add_argument("--finished", action="store_true", help="compute nothing: the table of what there is")
    parser.add_argument("--out", type=Path, help="folder for inference_table.md and .json")
    args = parser.parse_args()
    found: dict[str, dict[str, Any]] = {}
    for dataset in args.datasets:
        found |= measure_all(table_runs(dataset, args.epochs), args.runs, finished=args.finished)
        times = step_times(dataset, args.epochs, args.rounds)
        found |= {label: {**found[label], "time": str(times[label])} for label in times if label in found}
    publish("inference_table", __doc__, table(found), found, args.out)


if __name__ == "__main__":
    main()
