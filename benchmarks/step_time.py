"""Time of a training step and of a prediction with S weight samples, beside plain PyTorch and the peers.

All candidates run interleaved in one process; a number is the median, over the rounds, of a candidate's time
over plain PyTorch's in the same round, with quartiles. Plain PyTorch is eager, with Adam as it comes; a second row has
it as fast as a person can make it by hand, in channels-last with a fused Adam. Its "prediction" is S passes of the one
network. Steps go through many different batches: on a single one a network
soon has gradients so small that the processor's handling of denormal numbers is what is measured.

    python benchmarks/step_time.py --out docs/benchmarks
"""

from __future__ import annotations

import argparse
import json
import platform
from collections.abc import Callable
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

import posterity as pt
from interleave import Ratio, measure, ratios
from networks import WORKLOADS, Workload
from peers import LEARNING_RATE, PEERS, PeerUnavailable, Steps
from posterity.optim import build_optimizer

BASELINE, FAIR, OURS = "pytorch", "pytorch, channels-last, fused Adam", "posterity"
# This library's other passes and families, as further rows; they predict as the first does, or do not matter there.
VARIANTS: dict[str, dict[str, Any]] = {
    f"{OURS} local": {"estimator": "local"},
    f"{OURS} flipout": {"estimator": "flipout"},
    f"{OURS} low rank, R = 8": {"posterior": "low_rank"},
}
NUM_BATCHES = 50


def posterity_steps(workload: Workload, estimator: str = "sample", posterior: str = "mean_field") -> Steps:
    """This library, as its README has it, or with another estimator or family."""
    likelihood = pt.Categorical()
    net = pt.bayesian(workload.make_model(), rho=-5.0, likelihood=likelihood, posterior=posterior)
    optimizer = build_optimizer("adam", [{"params": net.parameters()}], lr=1e-3)

    def train_step(x: Tensor, y: Tensor) -> None:
        optimizer.zero_grad()
        pt.negative_elbo(net, likelihood, x, y, num_data=workload.num_data, estimator=estimator).backward()
        optimizer.step()

    def predict(x: Tensor, samples: int) -> Tensor:
        return net.predict(x, samples).mean

    return Steps(train_step, predict)


def fair_steps(workload: Workload) -> Steps:
    """Plain PyTorch with what this library has by itself: channels-last and a fused Adam."""
    layout = torch.channels_last
    model = workload.make_model().to(memory_format=layout)  # type: ignore[call-overload]
    optimizer = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE, fused=True)

    def train_step(x: Tensor, y: Tensor) -> None:
        optimizer.zero_grad()
        F.cross_entropy(model(x.to(memory_format=layout)), y).backward()
        optimizer.step()

    @torch.no_grad()
    def predict(x: Tensor, samples: int) -> Tensor:
        probabilities: Tensor = model(x.to(memory_format=layout)).softmax(-1)
        return probabilities

    return Steps(train_step, predict)


def on_many_batches(workload: Workload, steps: Steps) -> Callable[[], None]:
    """A training step on the next of NUM_BATCHES batches."""
    batches = cycle([workload.make_batch(seed=number) for number in range(NUM_BATCHES)])
    return lambda: steps.train_step(*next(batches))


def plain_predict(steps: Steps, x: Tensor, samples: int) -> None:
    for _ in range(samples):
        steps.predict(x, 1)


def candidates(workload: Workload, peers: list[str] | None) -> tuple[dict[str, Steps], dict[str, str]]:
    """The steps of everything (or of `peers`) that runs here, and why the rest does not."""
    found, missing = {}, {}
    chosen = {name: make for name, make in PEERS.items() if peers is None or name in [BASELINE, *peers]}
    ours: dict[str, Callable[[Workload], Steps]] = {FAIR: fair_steps, OURS: posterity_steps}
    ours |= {name: partial(posterity_steps, **settings) for name, settings in VARIANTS.items()}
    for name, make in {**chosen, **ours}.items():
        try:
            torch.manual_seed(0)
            found[name] = make(workload)
        except PeerUnavailable as reason:
            missing[name] = str(reason)
    return found, missing


def compare(workload: Workload, *, peers: list[str] | None, rounds: int, inner: int, samples: int) -> dict[str, Any]:
    """Ratios of training steps and predictions on one workload."""
    x, _ = workload.make_batch()
    found, missing = candidates(workload, peers)
    training = {name: on_many_batches(workload, steps) for name, steps in found.items()}
    prediction: dict[str, Callable[[], Any]] = {
        name: partial(s.predict, x, samples) for name, s in found.items() if name not in VARIANTS
    }
    for name in (BASELINE, FAIR):
        prediction[name] = partial(plain_predict, found[name], x, samples)
    step_times = measure(training, rounds, inner)
    with torch.no_grad():
        predict_times = measure(prediction, 5, 1)
    return {
        "step": ratios(step_times, BASELINE),
        "predict": ratios(predict_times, BASELINE),
        "milliseconds": {name: 1e3 * min(times) for name, times in step_times.items()},
        "missing": missing,
    }


def table(results: dict[str, dict[str, Any]], kind: str) -> str:
    """A Markdown table, a row a library, a column a workload."""
    names = list(dict.fromkeys(n for r in results.values() for n in r[kind]))
    lines = ["| | " + " | ".join(results) + " |", "|---" * (len(results) + 1) + "|"]
    for name in names:
        cells = [str(r[kind][name]) if name in r[kind] else "n/a" for r in results.values()]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def report(results: dict[str, dict[str, Any]], args: argparse.Namespace) -> str:
    threads = torch.get_num_threads()
    text = [
        "# Step time",
        "",
        f"Written by `make bench` ({args.rounds} rounds, {3 * args.rounds} for the small networks; "
        f"torch {torch.__version__}, {threads} threads, {platform.machine()}). "
        "Ratios to plain PyTorch in the same round: median [quartiles].",
        "",
        "## Training step (one weight sample, Adam)",
        "",
        table(results, "step"),
        "",
        f"## Prediction with {args.samples} weight samples (plain PyTorch: {args.samples} passes)",
        "",
        table(results, "predict"),
        "",
    ]
    for name, result in results.items():
        text += [f"Not measured on {name}: {peer} ({reason})" for peer, reason in result["missing"].items()]
    return "\n".join(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workloads", nargs="+", choices=list(WORKLOADS), default=list(WORKLOADS))
    parser.add_argument("--peers", nargs="*", help="only these beside plain PyTorch and this library")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--samples", type=int, default=16)
    parser.add_argument("--out", type=Path, help="folder for step_time.md and step_time.json")
    args = parser.parse_args()
    results = {}
    for name in args.workloads:
        workload = WORKLOADS[name]
        # The small networks' steps are short: more rounds of more steps, in about the same time.
        inner, rounds = (1, args.rounds) if name == "resnet" else (5, 3 * args.rounds)
        results[name] = compare(workload, peers=args.peers, rounds=rounds, inner=inner, samples=args.samples)
    text = report(results, args)
    print(text)
    if args.out:
        args.out.mkdir(parents=True, exist_ok=True)
        (args.out / "step_time.md").write_text(text)
        plain = json.dumps(results, indent=1, default=lambda r: vars(r) if isinstance(r, Ratio) else str(r))
        (args.out / "step_time.json").write_text(plain + "\n")


if __name__ == "__main__":
    main()
