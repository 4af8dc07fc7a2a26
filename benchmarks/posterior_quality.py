"""Every approximate posterior of this library against the truth, compared as functions.

NUTS samples the exact posterior of two small networks (nuts.py); each approximation (quality_candidates.py) is trained
on the same posterior with several seeds; what both predict is compared (quality_metrics.py). The floor is what two
halves of NUTS's own chains differ by. Everything is cached, so that a rerun goes on where the last one stopped;
results of an older library with the same settings stay in the cache until it is removed.

    python benchmarks/posterior_quality.py --cache runs/quality --out docs/benchmarks --figure docs/figures
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from posterity import PosterityError, UsageError
from quality_candidates import CANDIDATES, Candidate, bag, outputs, predictive
from quality_metrics import compare_classes, compare_regression, score_classes, score_regression
from quality_problems import PROBLEMS, Problem
from quality_report import Row, draw_bands, write

TOLERANCE = 1e-4
LABELS = ("NUTS", "NUTS, one half against the other")
Outputs = dict[str, Tensor]


def truth(problem: Problem, temperature: float, args: argparse.Namespace) -> tuple[Outputs, dict[str, Any]]:
    """NUTS's outputs at `temperature` and how they were got."""
    from nuts import Plan, cached_sample, convergence, discrepancy

    net = problem.network(0, dtype=torch.float64)
    difference = discrepancy(net, problem.train.x, problem.train.y, temperature)
    if difference > TOLERANCE:
        raise SystemExit(f"{problem.name}: NUTS's log density differs from the library's by {difference:.2g}")
    draws = cached_sample(net, problem.train, temperature, Plan(warmup=args.draws, draws=args.draws), args.cache)
    flat = torch.from_numpy(draws.weights.reshape(-1, net.num_weights).astype(np.float32))
    found = outputs(bag(problem.network(0), flat), problem, len(flat))
    chains = np.concatenate([found[part][..., 0].numpy() for part in ("data", "away")], axis=1)
    about = convergence(chains.reshape(*draws.weights.shape[:2], -1).astype(np.float64))
    about |= {"seconds": draws.seconds, "steps": draws.steps, "divergences": draws.divergences, "draws": len(flat)}
    return found, {"temperature": temperature, "discrepancy": difference, **about}


def distance(problem: Problem, ours: Tensor, theirs: Tensor) -> dict[str, float]:
    """How far two sets of outputs at the same inputs are apart."""
    return compare_classes(ours, theirs) if problem.noise is None else compare_regression(ours, theirs, problem.noise)


def measure(problem: Problem, ours: Outputs, theirs: Outputs) -> dict[str, float]:
    """All numbers of one predictive: against `theirs` on and away from the data, and by itself on held-out data."""
    numbers = {
        f"{k}, {part}": v for part in ("data", "away") for k, v in distance(problem, ours[part], theirs[part]).items()
    }
    y = problem.test.y
    own = score_classes(ours["data"], y) if problem.noise is None else score_regression(ours["data"], y, problem.noise)
    return numbers | own


def reference_rows(problem: Problem, true: Outputs, seconds: float) -> list[Row]:
    """NUTS itself, and its first half of the chains against its second."""
    half = len(true["data"]) // 2
    first, second = ({k: v[part] for k, v in true.items()} for part in (slice(half), slice(half, None)))
    whole = measure(problem, true, true) | {"seconds": seconds}
    return [Row(LABELS[0], 1.0, [whole]), Row(LABELS[1], 1.0, [measure(problem, first, second)])]


def candidate_row(
    candidate: Candidate, problem: Problem, truths: dict[float, Outputs], args: argparse.Namespace
) -> Row:
    """A candidate's numbers, a set for each seed, or why there are none."""
    row = Row(candidate.label, candidate.temperature, [])
    for seed in range(args.seeds):
        try:
            ours, facts = predictive(candidate, problem, seed, args.cache)
        except (UsageError, TypeError) as error:
            return Row(candidate.label, candidate.temperature, [], f"not in this version: {str(error).split('. ')[0]}")
        except PosterityError as error:
            return Row(candidate.label, candidate.temperature, [], f"failed: {error}")
        numbers = measure(problem, ours, truths[1.0])
        if candidate.temperature != 1 and candidate.temperature in truths:
            for part in ("data", "away"):
                same = distance(problem, ours[part], truths[candidate.temperature][part])
                numbers[f"tv same T, {part}"] = same["tv"]
        row.seeds.append(numbers | {name: value for name, value in facts.items() if not math.isnan(value)})
        row.outputs = row.outputs or ours
    return row


def run(problem: Problem, args: argparse.Namespace) -> dict[str, Any]:
    """Truths and rows of one problem."""
    chosen = [c for c in CANDIDATES if not args.only or any(part in c.label for part in args.only)]
    temperatures = {1.0} | ({c.temperature for c in chosen} if args.tempered else set())
    truths, about = {}, []
    for temperature in sorted(temperatures, reverse=True):
        truths[temperature], facts = truth(problem, temperature, args)
        about.append(facts)
        print(f"{problem.name}: NUTS at T = {temperature:g}: {facts}", flush=True)
    rows = reference_rows(problem, truths[1.0], about[0]["seconds"])
    rows[0].outputs = truths[1.0]
    for candidate in chosen:
        rows.append(candidate_row(candidate, problem, truths, args))
        print(f"{problem.name}: {rows[-1].brief()}", flush=True)
    return {"problem": problem, "nuts": about, "rows": rows}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problem", action="append", choices=list(PROBLEMS), help="default: all of them")
    parser.add_argument("--only", action="append", help="only candidates whose label has this in it")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--draws", type=int, default=500, help="NUTS's draws a chain, after as many of warm-up")
    parser.add_argument("--tempered", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--cache", type=Path, help="folder in which draws and predictions are kept")
    parser.add_argument("--out", type=Path, help="folder for posterior_quality.md and posterior_quality.json")
    parser.add_argument("--figure", type=Path, help="folder for posterior_quality.png")
    args = parser.parse_args()
    torch.set_num_threads(1)
    results = [run(PROBLEMS[name](), args) for name in args.problem or PROBLEMS]
    print(write(results, args.seeds, args.out))
    for result in results:
        if args.figure and result["problem"].noise is not None:
            draw_bands(result, args.figure / "posterior_quality.png")


if __name__ == "__main__":
    main()
