"""Wide one-hidden-layer networks on MNIST: untempered they unlearn, with temperature tau p / N they do not [1].

f(x) = (1/N) sum_j a_j relu(b_j . x) with N = 64 to 16384 neurons, prior N(0, 1/5) on every weight, trained on a random
part of MNIST (p images) by Bayes by Backprop, once with temperature 1 and once with tau p / N by weights. What is held
fixed over all widths and both rules, and why:

    means   start from the prior's law, standard deviations from the prior's: then untempered training has no way to go
            to the prior, and at every width the noise of f, of order 1/sqrt(N), is small from the first step
    rate    0.05 with Adam, whose steps do not depend on the gradient's scale: in a network that averages its neurons
            the gradient of a weight is of order 1/N, while weights must move by their prior's sd (0.45) at every width;
            200 steps of 0.05, falling along a cosine, can go ten times that far. Adam's eps is lowered to 1e-12,
            because gradients of order 1e-6 are not large beside the usual 1e-8
    tau     0.1, by weights (79 by neurons, which have 794 weights each)

Each (width, rule) is written to the JSON file when it is finished and is not computed again: a run that was stopped
goes on where it was. Needs `posterity data fetch mnist`. About 10 minutes on one core, most of them for N = 16384.

    python benchmarks/wide_networks.py --out docs

[1] Huix, Majewski, Durmus, Moulines, Korba, Variational inference of overparameterized Bayesian neural networks, 2022.
"""

from __future__ import annotations

import argparse
import math
import time
from functools import partial
from pathlib import Path
from typing import Any

import torch
from matplotlib.figure import Figure

import posterity as pt
from cached import Cached
from posterity import data
from posterity.data import Dataset
from posterity.metrics import score
from posterity.models import mean_field
from posterity.report.figures import BLUE, FAINT, ORANGE, save

RULES = {"untempered": "temperature 1", "tempered": "temperature τ p/N"}
PANELS = {"accuracy": "test accuracy", "nll": "test nll (nats)", "ece": "test ECE"}
COLOURS = {"untempered": ORANGE, "tempered": BLUE}


def load(num_train: int, num_test: int, seed: int) -> tuple[Dataset, Dataset]:
    """Random training images and the first test images, standardised."""
    splits = data.load("mnist").standardised()[0]
    chosen = torch.randperm(len(splits.train), generator=torch.Generator().manual_seed(seed))[:num_train]
    return splits.train.subset(chosen), splits.test.subset(torch.arange(num_test))


def measure(width: int, rule: str, train: Dataset, test: Dataset, args: argparse.Namespace) -> dict[str, Any]:
    """Train one network and score it."""
    began = time.monotonic()
    torch.manual_seed(args.seed)
    model = mean_field(train.input_shape, train.num_outputs, hidden=(width,))
    net = pt.bayesian(model, prior=math.sqrt(1 / 5), relative_sd=1.0, seed=args.seed)
    last = pt.fit(
        net,
        train,
        epochs=args.epochs,
        batch_size=args.batch_size,
        optimizer="adam",
        lr=args.lr,
        lr_sd=args.lr,
        optimizer_options={"eps": 1e-12},
        optimizer_sd_options={"eps": 1e-12},
        temperature=pt.per_weight(args.tau) if rule == "tempered" else 1.0,
        seed=args.seed,
    ).history[-1]
    scores = score(net.predict(test.x, args.samples, seed=args.seed), test.y, test.task)
    return {
        "num_weights": net.num_weights,
        **{key: last[key] for key in ("temperature", "kl")},
        "kl_per_weight": last["kl"] / net.num_weights,
        "train_nll": last["nll"],
        "train_accuracy": last["accuracy"],
        **{key: scores[key] for key in ("accuracy", "nll", "ece", "confidence", "epistemic")},
        "seconds": round(time.monotonic() - began, 1),
    }


def table(results: dict[str, dict[int, dict[str, Any]]]) -> str:
    """A Markdown table, a row a width."""
    lines = [
        "| neurons | weights | temperature | KL a weight | accuracy | nll | ECE |",
        "|---|---|---|---|---|---|---|",
    ]
    for rule, by_width in results.items():
        for width, found in by_width.items():
            lines.append(
                f"| {width} | {found['num_weights']:,} | {found['temperature']:.2g} ({rule}) | "
                f"{found['kl_per_weight']:.2g} | {found['accuracy']:.3f} | {found['nll']:.3f} | {found['ece']:.3f} |"
            )
    return "\n".join(lines)


def figure(results: dict[str, dict[int, dict[str, Any]]]) -> Figure:
    """Accuracy, nll and ECE over the width, a line a rule."""
    drawn = Figure(figsize=(11, 3.4), layout="constrained")
    for axes, (key, label) in zip(drawn.subplots(1, len(PANELS)), PANELS.items(), strict=True):
        for rule, by_width in results.items():
            values = [found[key] for found in by_width.values()]
            axes.plot(list(by_width), values, "o-", color=COLOURS[rule], label=RULES[rule], linewidth=1.8)
        widths = sorted({width for by_width in results.values() for width in by_width})
        axes.set_xscale("log", base=4)
        axes.set_xticks(widths, [str(width) for width in widths])
        axes.set_xlim(widths[0] / 1.5, widths[-1] * 1.5)
        axes.minorticks_off()
        axes.set(xlabel="neurons N", ylabel=label)
        axes.set_ylim(0, {"accuracy": 1, "nll": 2.5}.get(key))
        chance = {"accuracy": 0.1, "nll": math.log(10)}.get(key)
        if chance is not None:
            axes.axhline(chance, color="grey", linewidth=1, linestyle=":", label="chance", zorder=0)
        axes.grid(color=FAINT, linewidth=0.6)
        axes.spines[["top", "right"]].set_visible(False)
    handles, labels = drawn.axes[0].get_legend_handles_labels()
    drawn.legend(handles, labels, loc="outside upper center", ncols=3, frameon=False)
    return drawn


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--widths", type=int, nargs="+", default=[64, 256, 1024, 4096, 16384])
    parser.add_argument("--num-train", type=int, default=5000)
    parser.add_argument("--num-test", type=int, default=2000)
    parser.add_argument("--tau", type=float, default=0.1)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--batch-size", type=int, default=200)
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--samples", type=int, default=16, help="weight samples in prediction")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("docs"), help="gets results/ and figures/")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    apart = ("out", "widths", "threads")
    kept = Cached(args.out / "results" / "wide_networks.json", {k: v for k, v in vars(args).items() if k not in apart})
    train, test = load(args.num_train, args.num_test, args.seed)
    results: dict[str, dict[int, dict[str, Any]]] = {rule: {} for rule in RULES}
    for width in sorted(args.widths):
        for rule in RULES:
            found = kept.get(f"{rule} {width}", partial(measure, width, rule, train, test, args))
            results[rule][width] = found
            print(f"{rule} {width}: accuracy {found['accuracy']:.3f}, {found['seconds']} s", flush=True)
    print(table(results))
    (args.out / "figures").mkdir(parents=True, exist_ok=True)
    save(figure(results), args.out / "figures" / "wide_networks.png")


if __name__ == "__main__":
    main()
