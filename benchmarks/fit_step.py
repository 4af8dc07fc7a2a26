"""Time of a step inside `fit`, beside a plain PyTorch loop and beside the bare step of a loop of one's own.

All candidates run interleaved in one process; a number is the median, over the rounds, of a candidate's time over the
plain loop's in the same round, with quartiles. What is timed of `fit` is `Training.train_step` on its plan and the
batch's choice: no imports, no epoch's end. The plain loops have their batches ready-made. A further row is the least
that a mean-field step takes with PyTorch's functions: noise, softplus, one pass, and a fused Adam over twice the
weights, without a KL, a check, or a record of anything.

    python benchmarks/fit_step.py --out docs/benchmarks
"""

from __future__ import annotations

import argparse
import json
import platform
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

import posterity as pt
from interleave import Ratio, measure, ratios
from networks import WORKLOADS, Workload
from peers import LEARNING_RATE, PEERS, Steps
from posterity.core.randomness import NoiseSource
from posterity.training.loop import Training
from posterity.training.plan import plan
from posterity.training.settings import Settings
from step_time import BASELINE, FAIR, NUM_BATCHES, fair_steps, on_many_batches, posterity_steps, table

BARE, LEAST = "posterity, bare step", "the least of a mean-field step, without KL"
NETWORKS = ("mlp", "lenet5")
# By row: the family, and the settings of `fit`.
FITS: dict[str, tuple[str, dict[str, Any]]] = {
    "fit: point, Adam, temperature 0": ("point", {"temperature": 0.0}),
    "fit: point, Adam, temperature 1": ("point", {"temperature": 1.0}),
    "fit: no options (mean-field, Muon for means, Adam for sds)": ("mean_field", {"optimizer": None}),
    "fit: mean-field, AdaBayes-FP for means, Adam for sds": ("mean_field", {"optimizer": "adabayes-fp"}),
    "fit: mean-field, Adam": ("mean_field", {}),
    "fit: mean-field, SGD for means, Adam for sds": ("mean_field", {"optimizer": "sgd"}),
    "fit: mean-field, IVON": ("mean_field", {"optimizer": "ivon"}),
}


def least_steps(workload: Workload) -> Steps:
    """Mean-field by hand: the weights of the model are views of one vector, whose gradient is the means'."""
    model = workload.make_model()
    parameters = list(model.parameters())
    sizes = [p.numel() for p in parameters]
    mean = torch.cat([p.detach().flatten() for p in parameters])
    weights, gradient, rho = torch.empty_like(mean), torch.zeros_like(mean), torch.full_like(mean, -5.0)
    for p, own, grad in zip(parameters, weights.split(sizes), gradient.split(sizes), strict=True):
        p.data, p.grad = own.view(p.shape), grad.view(p.shape)
    for vector, grad in ((mean, gradient), (rho, torch.empty_like(rho))):
        vector.requires_grad_().grad = grad
    optimizer = torch.optim.Adam([mean, rho], lr=LEARNING_RATE, fused=True)
    source = NoiseSource(0)

    def train_step(x: Tensor, y: Tensor) -> None:
        assert rho.grad is not None
        with torch.no_grad():
            noise = source.normal((len(mean),), mean)
            torch.addcmul(mean, F.softplus(rho), noise, out=weights)
            gradient.zero_()
        F.cross_entropy(model(x), y).backward()
        with torch.no_grad():
            torch.mul(gradient, noise, out=rho.grad)
            torch.ops.aten.softplus_backward.grad_input(rho.grad, rho, 1, 20, grad_input=rho.grad)
        optimizer.step()

    def predict(x: Tensor, samples: int) -> Tensor:
        raise NotImplementedError

    return Steps(train_step, predict)


def fit_steps(workload: Workload, posterior: str, settings: dict[str, Any]) -> Iterator[None]:
    """The steps of `fit`, one after the other, without end."""
    net = pt.bayesian(workload.make_model(), posterior=posterior, seed=0)
    inputs, labels = zip(*(workload.make_batch(seed=number) for number in range(NUM_BATCHES)), strict=True)
    given = Settings.of(**{"optimizer": "adam", "batch_size": workload.batch, "epochs": 10**6, **settings})
    training = Training(net, plan(net, (torch.cat(inputs), torch.cat(labels)), None, given))
    while True:
        for index in training.batches:
            training.train_step(index)
            yield


def compare(workload: Workload, *, rounds: int, inner: int) -> dict[str, Any]:
    """Ratios of the steps on one workload."""
    loops = {BASELINE: PEERS[BASELINE], FAIR: fair_steps, LEAST: least_steps, BARE: posterity_steps}
    candidates: dict[str, Callable[[], Any]] = {
        n: on_many_batches(workload, make(workload)) for n, make in loops.items()
    }
    for name, (posterior, settings) in FITS.items():
        candidates[name] = partial(next, fit_steps(workload, posterior, settings))
    times = measure(candidates, rounds, inner)
    return {
        "step": ratios(times, BASELINE),
        "milliseconds": {name: 1e3 * min(values) for name, values in times.items()},
    }


def report(results: dict[str, dict[str, Any]], args: argparse.Namespace) -> str:
    return "\n".join(
        [
            "# A step inside `fit`",
            "",
            f"Written by `benchmarks/fit_step.py` ({args.rounds} rounds of {args.inner} steps, batch 100; torch "
            f"{torch.__version__}, {torch.get_num_threads()} threads, {platform.machine()}). Ratios to the plain "
            "PyTorch loop (Adam as it comes) in the same round: median [quartiles].",
            "",
            table(results, "step"),
            "",
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workloads", nargs="+", choices=list(WORKLOADS), default=list(NETWORKS))
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--inner", type=int, default=5, help="steps of a candidate in a round")
    parser.add_argument("--out", type=Path, help="folder for fit_step.md and fit_step.json")
    args = parser.parse_args()
    results = {n: compare(WORKLOADS[n], rounds=args.rounds, inner=args.inner) for n in args.workloads}
    text = report(results, args)
    print(text)
    if args.out:
        args.out.mkdir(parents=True, exist_ok=True)
        (args.out / "fit_step.md").write_text(text)
        plain = json.dumps(results, indent=1, default=lambda r: vars(r) if isinstance(r, Ratio) else str(r))
        (args.out / "fit_step.json").write_text(plain + "\n")


if __name__ == "__main__":
    main()
