"""Time of one prediction by a frozen set of S draws, beside S plain networks evaluated together.

All candidates run interleaved in one process; a number is the median, over the rounds, of a candidate's time over that
of S plain networks together in the same round, with quartiles. These are S networks of their own weights under
`torch.func.stack_module_state` and `vmap`: the arithmetic alone, no likelihood, no uncertainty. For the wide network
also one `baddbmm` a layer, written by hand.

    python benchmarks/predictor_time.py --out docs/benchmarks
"""

from __future__ import annotations

import argparse
import json
import platform
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import posterity as pt
from interleave import Ratio, measure, ratios
from networks import make_lenet5, make_resnet20

TOGETHER, BY_HAND = "S plain networks together (vmap)", "S plain networks together (baddbmm)"
PREDICTOR, PREDICT = "net.predictor(S)", "net.predict(x, S)"
ONE, ONE_BY_ONE = "one plain pass", "S plain networks, one by one"


def make_wide() -> nn.Module:
    """784-1000-300-10 with ReLU: 1.1 million weights."""
    return nn.Sequential(nn.Linear(784, 1000), nn.ReLU(), nn.Linear(1000, 300), nn.ReLU(), nn.Linear(300, 10))


NETWORKS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "mlp": (make_wide, (784,)),
    "lenet5": (make_lenet5, (1, 28, 28)),
    "resnet": (make_resnet20, (3, 32, 32)),
}


def by_hand(plain: list[nn.Module], x: Tensor) -> Callable[[], object]:
    """The S wide networks: a batched matrix product a layer."""
    layers = [[m for m in one.modules() if isinstance(m, nn.Linear)] for one in plain]
    weights = [torch.stack([m.weight.detach() for m in same]).mT for same in zip(*layers, strict=True)]
    biases = [torch.stack([m.bias.detach() for m in same]).unsqueeze(1) for same in zip(*layers, strict=True)]

    def run() -> Tensor:
        h = x.expand(len(plain), *x.shape)
        for place, (weight, bias) in enumerate(zip(weights, biases, strict=True)):
            h = torch.baddbmm(bias, h.relu() if place else h, weight)
        return h

    return run


def candidates(name: str, *, rows: int, samples: int) -> dict[str, Callable[[], object]]:
    """What is compared on a network, for `rows` rows."""
    make, shape = NETWORKS[name]
    torch.manual_seed(0)
    plain, x = [make().eval() for _ in range(samples)], torch.randn(rows, *shape)
    net = pt.bayesian(make(), likelihood=pt.Categorical(), seed=0)
    predictor = net.predictor(samples, seed=0)
    parameters, buffers = torch.func.stack_module_state(plain)
    state = {n: t.detach() for n, t in {**parameters, **buffers}.items()}
    fold = torch.vmap(lambda tensors: torch.func.functional_call(plain[0], tensors, (x,)))
    found: dict[str, Callable[[], object]] = {
        TOGETHER: lambda: fold(state),
        PREDICTOR: lambda: predictor(x),
        PREDICT: lambda: net.predict(x, samples, seed=0),
        ONE_BY_ONE: lambda: [one(x) for one in plain],
        ONE: lambda: plain[0](x),
    }
    return found | ({BY_HAND: by_hand(plain, x)} if make is make_wide else {})


@torch.no_grad()
def compare(name: str, *, rows: int, samples: int, rounds: int, inner: int) -> dict[str, Any]:
    """Ratios and milliseconds on one network."""
    calls = {label: _silent(run) for label, run in candidates(name, rows=rows, samples=samples).items()}
    times = measure(calls, rounds, inner)
    fastest = {label: 1e3 * min(values) for label, values in times.items()}
    return {"ratio": ratios(times, TOGETHER), "milliseconds": fastest, "rows": rows, "samples": samples}


def _silent(run: Callable[[], object]) -> Callable[[], None]:
    def call() -> None:
        run()

    return call


def table(results: dict[str, dict[str, Any]]) -> str:
    """A row a candidate, two columns a network: the ratio, and the fastest round's milliseconds."""
    head = "| |" + "".join(f" {name}, {found['rows']} row | ms |" for name, found in results.items())
    lines = [head, "|---|" + "---|---|" * len(results)]
    for label in (TOGETHER, BY_HAND, PREDICTOR, PREDICT, ONE_BY_ONE, ONE):
        cells = [
            f" {found['ratio'][label]} | {found['milliseconds'][label]:.2f} |" if label in found["ratio"] else " | |"
            for found in results.values()
        ]
        lines.append(f"| {label} |" + "".join(cells))
    return "\n".join(lines)


def report(results: dict[str, dict[str, Any]], args: argparse.Namespace) -> str:
    how = f"{args.rounds} rounds of {args.inner} calls, S = {args.samples}; torch {torch.__version__}"
    return "\n".join(
        [
            "# One row, S draws",
            "",
            f"Written by `benchmarks/predictor_time.py` ({how}, {torch.get_num_threads()} threads, "
            f"{platform.machine()}). Ratios to S plain networks evaluated together in the same round: median "
            "[quartiles]; beside them the milliseconds of the fastest round. A predictor also gives the likelihood's "
            "uncertainties and checks its inputs.",
            "",
            table(results),
            "",
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", nargs="+", choices=list(NETWORKS), default=list(NETWORKS))
    parser.add_argument("--rows", type=int, default=1)
    parser.add_argument("--samples", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--inner", type=int, default=2, help="calls of a candidate in a round")
    parser.add_argument("--out", type=Path, help="folder for predictor_time.md and predictor_time.json")
    args = parser.parse_args()
    how = {"rows": args.rows, "samples": args.samples, "rounds": args.rounds, "inner": args.inner}
    results = {name: compare(name, **how) for name in args.networks}
    text = report(results, args)
    print(text)
    if args.out:
        args.out.mkdir(parents=True, exist_ok=True)
        (args.out / "predictor_time.md").write_text(text)
        plain = json.dumps(results, indent=1, default=lambda r: vars(r) if isinstance(r, Ratio) else str(r))
        (args.out / "predictor_time.json").write_text(plain + "\n")


if __name__ == "__main__":
    main()
