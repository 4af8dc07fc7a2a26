"""A regression that our defaults were not fitted on: few rows, five inputs of which one matters.

    y = sin(2 x_1) + 0.3 noise,    x in 5 dimensions, standard normal

by networks with one and with two hidden layers: with no options, at two constant temperatures, and plain (a point,
temperature 0). The best that can be had is an RMSE of 0.3 and a log-likelihood of about -0.2.

    python benchmarks/few_rows.py --out docs/benchmarks
"""

from __future__ import annotations

import argparse
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

import posterity as pt
from posterity.models import mlp

INPUTS, NOISE, TEST_ROWS = 5, 0.3, 2000
METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "no options": ("mean_field", {}),
    "temperature 0.1": ("mean_field", {"temperature": 0.1}),
    "temperature 0.03": ("mean_field", {"temperature": 0.03}),
    "plain": ("point", {"temperature": 0.0}),
}
COLUMNS = ("RMSE", "log-likelihood", "noise", "coverage of 90 %")


def made(rows: int, seed: int) -> tuple[Tensor, Tensor]:
    """Inputs (rows, 5) and targets (rows, 1)."""
    draws = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, INPUTS, generator=draws)
    return x, torch.sin(2 * x[:, :1]) + NOISE * torch.randn(rows, 1, generator=draws)


def scores(hidden: tuple[int, ...], rows: int, method: str, seed: int, epochs: int | None) -> dict[str, float]:
    """Of one training, on rows that it has not seen."""
    posterior, settings = METHODS[method]
    torch.manual_seed(seed)
    net = pt.bayesian(mlp((INPUTS,), 1, hidden=hidden), posterior=posterior, seed=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pt.TrainingWarning)
        result = pt.fit(net, made(rows, seed), epochs=epochs, seed=seed, **settings)
    x, y = made(TEST_ROWS, 10**6 + seed)
    prediction = net.predict(x, seed=seed)
    low, high = prediction.interval(0.9)
    return {
        "RMSE": float((prediction.mean - y).square().mean().sqrt()),
        "log-likelihood": float(prediction.log_prob(y).mean()),
        "noise": float(result.ending["noise"]),
        "coverage of 90 %": float(((low < y) & (y < high)).float().mean()),
    }


def table(found: dict[tuple[str, str], list[dict[str, float]]]) -> str:
    """Markdown: mean and range over the seeds."""
    lines = [f"| hidden layers | | {' | '.join(COLUMNS)} |", "|---" * (2 + len(COLUMNS)) + "|"]
    for (network, method), each in found.items():
        cells = []
        for column in COLUMNS:
            values = np.array([one[column] for one in each])
            cells.append(f"{values.mean():.3g} ({values.min():.3g} to {values.max():.3g})")
        lines.append(f"| {network} | {method} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", nargs="+", default=["50", "34,34"], help="widths of hidden layers")
    parser.add_argument("--rows", type=int, default=200)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, help="the default's own unless given")
    parser.add_argument("--out", type=Path, help="folder for few_rows.md")
    args = parser.parse_args()
    torch.set_num_threads(1)
    found: dict[tuple[str, str], list[dict[str, float]]] = {}
    for network in args.networks:
        hidden = tuple(int(width) for width in network.split(","))
        for method in METHODS:
            for seed in range(args.seeds):
                one = scores(hidden, args.rows, method, seed, args.epochs)
                print(network, method, seed, {k: round(v, 3) for k, v in one.items()}, file=sys.stderr, flush=True)
                found.setdefault((network, method), []).append(one)
    head = (__doc__ or "").strip().split("\n", 1)
    note = f"{args.rows} rows, {args.seeds} seeds: mean (least to greatest). Epochs: {args.epochs or 'by default'}."
    text = f"# {head[0]}\n{head[1]}\n\n{note}\n\n{table(found)}\n"
    print(text)
    if args.out:
        (args.out / "few_rows.md").write_text(text)


if __name__ == "__main__":
    main()
