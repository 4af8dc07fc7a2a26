"""Time of an optimiser's step on one long vector, beside PyTorch's fused Adam, its default Adam and other libraries.

All candidates run interleaved in one process; a number is the median, over the rounds, of a candidate's time
over fused Adam's in the same round, with quartiles. IVON's step is timed by itself and with the drawing of its
sample, which is how ivon-opt can be timed.

    python benchmarks/optimizers.py --out docs/benchmarks
"""

from __future__ import annotations

import argparse
import json
import platform
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from interleave import Ratio, measure, ratios
from posterity.optim import IVON, OPTIMIZERS, build_optimizer
from posterity.training.methods.langevin import DYNAMICS, Dynamics

BASELINE, DEFAULT = "adam", "adam (PyTorch's default)"
NUM_DATA, BATCH_SIZE = 6e4, 100


def weights(size: int) -> tuple[nn.Parameter, Tensor]:
    generator = torch.Generator().manual_seed(0)
    w, grad = torch.randn(2, size, generator=generator)
    return nn.Parameter(w.clone()), 1e-3 * grad


def plain_step(make: Callable[[nn.Parameter], torch.optim.Optimizer], size: int) -> Callable[[], Any]:
    w, grad = weights(size)
    w.grad = grad
    return make(w).step


def registered(name: str, size: int) -> Callable[[], Any]:
    settings = {key: {"batch_size": BATCH_SIZE}[key] for key in OPTIMIZERS[name].needs}
    return plain_step(lambda w: build_optimizer(name, [{"params": [w]}], **settings), size)


def langevin(dynamics: Dynamics, size: int) -> Callable[[], Any]:
    settings: dict[str, Any] = {"lr": 2 * dynamics.drift / NUM_DATA, "num_data": NUM_DATA, **dynamics.settings}
    return plain_step(lambda w: dynamics.make([w], **settings), size)


def ivon_steps(size: int) -> dict[str, Callable[[], Any]]:
    """The step by itself on collected gradients, and with its sample."""
    w, grad = weights(size)
    alone, products = IVON([w], ess=1.0), grad.clone()  # with this ess they may be anything of this size
    alone.begin(w, alone.param_groups[0])

    def step() -> None:
        alone.state[w].update(grad=grad, noise_grad=products)
        alone.shared = {**alone.shared, "samples": 1}
        alone.step()

    other, grad = weights(size)
    sampling = IVON([other], ess=NUM_DATA)

    def sample_and_step() -> None:
        with sampling.sampled_weights():
            other.grad = grad
        sampling.step()

    return {"ivon": step, "ivon, with its sample": sample_and_step}


def peers(size: int) -> tuple[dict[str, Callable[[], Any]], dict[str, str]]:
    """Other libraries' optimisers, and why some are missing."""
    found: dict[str, Callable[[], Any]] = {}
    missing: dict[str, str] = {}
    try:
        library = import_module("pytorch_optimizer")
        found["adabound (pytorch-optimizer)"] = plain_step(lambda w: library.AdaBound([w]), size)
        found["radam (pytorch-optimizer)"] = plain_step(lambda w: library.RAdam([w]), size)
    except ImportError as error:
        missing["pytorch-optimizer"] = str(error)
    try:
        ivon = import_module("ivon")
    except ImportError as error:
        missing["ivon-opt"] = str(error)
        return found, missing
    w, grad = weights(size)
    theirs = ivon.IVON([w], lr=0.1, ess=NUM_DATA)

    def sample_and_step() -> None:
        with theirs.sampled_params(train=True):
            w.grad = grad
        theirs.step()

    found["ivon, with its sample (ivon-opt)"] = sample_and_step
    return found, missing


def compare(size: int, *, rounds: int, inner: int) -> dict[str, Any]:
    """Ratios to fused Adam and the best times in milliseconds."""
    steps = {name: registered(name, size) for name in OPTIMIZERS}
    steps |= {name: langevin(dynamics, size) for name, dynamics in DYNAMICS.items()}
    others, missing = peers(size)
    steps |= ivon_steps(size) | {DEFAULT: plain_step(lambda w: torch.optim.Adam([w]), size)} | others
    times = measure(steps, rounds, inner)
    return {
        "step": ratios(times, BASELINE),
        "milliseconds": {name: 1e3 * min(seconds) for name, seconds in times.items()},
        "missing": missing,
    }


def report(result: dict[str, Any], args: argparse.Namespace) -> str:
    """A Markdown table, a row an optimiser."""
    lines = [
        "# Optimisers",
        "",
        f"Step on a vector of {args.size:,} elements, over that of PyTorch's fused Adam in the same round: median "
        f"[quartiles] of {args.rounds} rounds; torch {torch.__version__}, {args.threads} thread(s), "
        f"{platform.machine()}.",
        "",
        "| | ratio | best, ms |",
        "|---|---|---|",
    ]
    for name, ratio in result["step"].items():
        lines.append(f"| {name} | {ratio} | {result['milliseconds'][name]:.2f} |")
    lines += ["", *(f"Not measured: {name} ({reason})" for name, reason in result["missing"].items())]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=10**6)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--inner", type=int, default=3)
    # With more threads than idle cores it is the waiting for each other that is measured.
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", type=Path, help="folder for optimizers.md and optimizers.json")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    result = compare(args.size, rounds=args.rounds, inner=args.inner)
    text = report(result, args)
    print(text)
    if args.out:
        args.out.mkdir(parents=True, exist_ok=True)
        (args.out / "optimizers.md").write_text(text + "\n")
        plain = json.dumps(result, indent=1, default=lambda r: vars(r) if isinstance(r, Ratio) else str(r))
        (args.out / "optimizers.json").write_text(plain + "\n")


if __name__ == "__main__":
    main()
