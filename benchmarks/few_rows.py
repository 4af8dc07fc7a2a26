"""Regressions that our defaults were not fitted on, most of them with few rows.

    one of five    y = sin(2 x_1) + 0.3 e,  five normal inputs, of which one matters           (200 rows)
    Friedman 1     10 sin(pi x_1 x_2) + 20 (x_3 - 1/2)^2 + 10 x_4 + 5 x_5 + e,  ten inputs     (200 rows)
    Friedman 2, 3  as scikit-learn has them, with noise of 125 and 0.1                         (200 rows)
    linear         five of twenty inputs matter, noise of half the spread                      (100 rows)
    wave           y = sin(4 x) + 0.2 e, one input                                             (40 rows)
    nothing        targets that have nothing to do with the inputs                             (150 rows)
    smooth         sin(x_1) x_2 + x_3^2 / 2 + 0.02 e                                           (300 rows)
    many rows      the first two again, by networks with some three weights for a row          (3000 and 5000 rows)

(of many rows the most that leverages are taken from was raised after Friedman 1's seed 20 had been seen), by networks
with no options, and plain ones (a point, temperature 0): as they are, and with the noise that a tenth of
the rows shows, which was held out. Numbers are in units of the test targets' spread: an RMSE of 1 is that of the mean
of all targets. `best` is the RMSE of who knows the function. Coverage is that of central 90 % intervals.

    python benchmarks/few_rows.py run
    python benchmarks/few_rows.py table
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import torch
from sklearn import datasets
from torch import Tensor

import posterity as pt
from defaults_rules import present_defaults
from posterity.core.randomness import derive
from posterity.likelihoods import RealPrediction
from posterity.models import mlp
from posterity.storage import write_text
from posterity.storage.atomic import read_json
from posterity.training import Callback
from shaken import SHAKEN, Shaken

NAME = "few_rows"
COMMANDS = ("python benchmarks/few_rows.py run", "python benchmarks/few_rows.py table")
DOCS = Path(__file__).parents[1] / "docs" / "benchmarks"
TEST_ROWS, SEEDS = 2000, (20, 21, 22)
SHORT, BATCH = 300, 100  # steps of a training that is made again by the tests, and their rows
OURS, PLAIN, HELD_OUT = "no options", "plain", "plain, held-out noise"
METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    OURS: ("mean_field", {}),
    PLAIN: ("point", {"temperature": 0.0}),
    HELD_OUT: ("point", {"temperature": 0.0}),
}
SHOWN = {
    "rmse": "RMSE",
    "log_likelihood": "log-likelihood",
    "coverage": "coverage of 90 %",
    "temperature": "temperature",
}


class Problem(NamedTuple):
    """Rows, hidden layers, the noise's sd, and a function of (rows, seed) that gives inputs and noisy targets."""

    rows: int
    hidden: tuple[int, ...]
    noise: float
    made: Callable[[int, int], tuple[Tensor, Tensor]]


def _normal(rows: int, inputs: int, seed: int) -> tuple[Tensor, Tensor]:
    draws = torch.Generator().manual_seed(seed)
    return torch.randn(rows, inputs, generator=draws), torch.randn(rows, 1, generator=draws)


def one_of_five(rows: int, seed: int) -> tuple[Tensor, Tensor]:
    x, e = _normal(rows, 5, seed)
    return x, (2 * x[:, :1]).sin() + 0.3 * e


def linear(rows: int, seed: int) -> tuple[Tensor, Tensor]:
    x, e = _normal(rows, 20, seed)
    return x, x[:, :5].sum(1, keepdim=True) / math.sqrt(5) + 0.5 * e


def wave(rows: int, seed: int) -> tuple[Tensor, Tensor]:
    x, e = _normal(rows, 1, seed)
    x = 2 * torch.distributions.Normal(0.0, 1.0).cdf(x) - 1
    return x, (4 * x).sin() + 0.2 * e


def nothing(rows: int, seed: int) -> tuple[Tensor, Tensor]:
    return _normal(rows, 8, seed)


def smooth(rows: int, seed: int) -> tuple[Tensor, Tensor]:
    x, e = _normal(rows, 4, seed)
    return x, (x[:, :1].sin() * x[:, 1:2] + 0.5 * x[:, 2:3].square()) + 0.02 * e


def friedman(number: int, noise: float) -> Callable[[int, int], tuple[Tensor, Tensor]]:
    def made(rows: int, seed: int) -> tuple[Tensor, Tensor]:
        x, y = getattr(datasets, f"make_friedman{number}")(n_samples=rows, noise=noise, random_state=seed)
        return torch.from_numpy(x).float(), torch.from_numpy(y).float().unsqueeze(1)

    return made


PROBLEMS = {
    "one of five": Problem(200, (50,), 0.3, one_of_five),
    "one of five, 34-34": Problem(200, (34, 34), 0.3, one_of_five),
    "one of five, 100-100": Problem(200, (100, 100), 0.3, one_of_five),
    "Friedman 1": Problem(200, (50,), 1.0, friedman(1, 1.0)),
    "Friedman 2": Problem(200, (50,), 125.0, friedman(2, 125.0)),
    "Friedman 3": Problem(200, (50,), 0.1, friedman(3, 0.1)),
    "linear": Problem(100, (50,), 0.5, linear),
    "wave": Problem(40, (50,), 0.2, wave),
    "nothing": Problem(150, (50,), 1.0, nothing),
    "smooth": Problem(300, (50,), 0.02, smooth),
    "one of five, many rows": Problem(3000, (100, 100), 0.3, one_of_five),
    "Friedman 1, many rows": Problem(5000, (100, 100), 1.0, friedman(1, 1.0)),
}


def scores(
    problem: Problem, method: str, seed: int, epochs: int | None = None, callbacks: Sequence[Callback] = ()
) -> dict[str, float]:
    """Of one training, on rows that it has not seen."""
    posterior, settings = METHODS[method]
    x, y = problem.made(problem.rows, seed)
    test_x, test_y = problem.made(TEST_ROWS, derive(seed, "test") % 2**31)
    spread = test_y.std(correction=0)
    kept = math.ceil(0.9 * len(x)) if method == HELD_OUT else len(x)
    torch.manual_seed(seed)
    net = pt.bayesian(mlp((x.shape[1],), 1, hidden=problem.hidden), posterior=posterior, seed=seed)
    means, sds = x[:kept].mean(0), x[:kept].std(0)
    x, test_x = (x - means) / sds, (test_x - means) / sds
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pt.TrainingWarning)
        result = pt.fit(
            net,
            (x[:kept], y[:kept]),
            epochs=epochs,
            seed=seed,
            standardise=True,
            callbacks=callbacks,
            **settings,
        )
    prediction = net.predict(test_x, seed=seed)
    assert isinstance(prediction, RealPrediction)
    if method == HELD_OUT:
        noise = (net.predict(x[kept:]).mean - y[kept:]).square().mean().sqrt().expand_as(prediction.mean)
        prediction = RealPrediction(prediction.mean, noise, torch.zeros_like(noise))
    low, high = prediction.interval(0.9)
    return {
        "rmse": float((prediction.mean - test_y).square().mean().sqrt() / spread),
        "log_likelihood": float(prediction.log_prob(test_y).mean() + spread.log()),
        "coverage": float(((low < test_y) & (test_y < high)).float().mean()),
        "temperature": float(result.ending["temperature"]),
        "best": problem.noise / float(spread),
    }


def short(problem: Problem, shaken: int = 0) -> dict[str, float]:
    """Of a short training with no options, for the first seed: what tells whether the code is the present one."""
    epochs = max(3, SHORT * BATCH // problem.rows)
    found = scores(problem, OURS, SEEDS[0], epochs, [Shaken(shaken)] if shaken else [])
    return {
        "rmse": found["rmse"],
        "density": math.exp(found["log_likelihood"]),
        "temperature": found["temperature"],
    }


def repeatable(problem: Problem) -> dict[str, list[float]]:
    """By name the number of the short training, then those of shaken ones (benchmarks/shaken.py)."""
    each = [short(problem, seed) for seed in range(SHAKEN + 1)]
    return {name: [float(f"{found[name]:.6g}") for found in each] for name in each[0]}


def cell_path(args: argparse.Namespace, name: str, method: str, seed: int) -> Path:
    """Where a cell is."""
    path: Path = args.out / f"{name}, {method}, {seed}.json".replace(" ", "_")
    return path


def run(args: argparse.Namespace) -> None:
    """Cells that are there, of the present defaults, are not made again; with --anew they are forgotten first."""
    torch.set_num_threads(1)
    args.out.mkdir(parents=True, exist_ok=True)
    if args.anew:
        for place in itertools.product(args.problems, METHODS, args.seeds):
            cell_path(args, *place).unlink(missing_ok=True)
    now = present_defaults()
    for name in args.problems:
        for method in METHODS:
            for seed in args.seeds:
                path = cell_path(args, name, method, seed)
                if path.exists() and read_json(path).get("made with") == now:
                    continue
                found = {k: float(f"{v:.6g}") for k, v in scores(PROBLEMS[name], method, seed, args.epochs).items()}
                row = {"problem": name, "method": method, "seed": seed, **found}
                print(row, file=sys.stderr, flush=True)
                if (method, seed) == (OURS, SEEDS[0]):
                    row["repeats"] = repeatable(PROBLEMS[name])
                write_text(path, json.dumps({"made with": now, "row": row}))


def table(args: argparse.Namespace) -> None:
    """Write the files."""
    found = [read_json(path) for path in sorted(args.out.glob("*.json"))]
    now = present_defaults()
    rows = [each["row"] for each in found if each["made with"] == json.loads(json.dumps(now))]
    rows.sort(key=lambda row: (list(PROBLEMS).index(row["problem"]), list(METHODS).index(row["method"]), row["seed"]))
    stored = {**now, "rows": rows}
    write_text(args.to / f"{NAME}.json", json.dumps(stored, indent=1) + "\n")
    text = page(json.loads(json.dumps(stored)))
    write_text(args.to / f"{NAME}.md", text)
    print(text)


def page(stored: Mapping[str, Any]) -> str:
    """few_rows.md."""
    head, about = (__doc__ or "").strip().split("\n", 1)
    lines = [f"| regression | | {' | '.join(SHOWN.values())} |", "|---" * (2 + len(SHOWN)) + "|"]
    means: dict[str, dict[str, float]] = {}
    for name, problem in PROBLEMS.items():
        for method in METHODS:
            own = [r for r in stored["rows"] if (r["problem"], r["method"]) == (name, method)]
            if not own:
                continue
            values = {each: [row[each] for row in own] for each in SHOWN}
            means.setdefault(name, {})[method] = fmean(values["log_likelihood"])
            cells = [f"{fmean(v):.3g} ({min(v):.3g} to {max(v):.3g})" for v in values.values()]
            first = f"{name} ({problem.rows} rows; best {fmean(r['best'] for r in own):.3g})" if method == OURS else ""
            lines.append(f"| {first} | {method} | {' | '.join(cells)} |")
    seeds = sorted({row["seed"] for row in stored["rows"]})
    told = [
        f"- log-likelihood above that of {other}: "
        f"{sum(each[OURS] > each[other] for each in means.values() if other in each)} of {len(means)}"
        for other in METHODS
        if other != OURS
    ]
    note = f"Seeds {', '.join(map(str, seeds))}: mean (least to greatest)."
    return f"# {head}\n{about}\n\n{note}\n\n" + "\n".join([*lines, "", *told]) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["run", "table"])
    parser.add_argument("--problems", nargs="+", default=list(PROBLEMS), choices=list(PROBLEMS))
    parser.add_argument("--seeds", nargs="+", type=int, default=list(SEEDS))
    parser.add_argument("--anew", action="store_true", help="first forget the cells that are asked for")
    parser.add_argument("--epochs", type=int, help="the default's own unless given")
    parser.add_argument("--out", type=Path, default=Path("runs/few_rows"), help="folder of the cells")
    parser.add_argument("--to", type=Path, default=DOCS, help="folder of the table's files")
    args = parser.parse_args()
    {"run": run, "table": table}[args.command](args)


if __name__ == "__main__":
    main()
