"""The ELBO of wide networks against its mean-field limit: claims K1 to K3 of source 002 [1] on a small regression.

f(x) = (1/N) sum_j a_j relu(b_j . x), prior N(0, 1/5), Gaussian noise of sd 0.5, p data with y = sin(2 x) and inputs
(x, 1). Outputs have closed-form moments here (objectives.mean_field_limit), so that the ELBO is an ordinary function of
means and standard deviations: it is maximised by L-BFGS without sampling, and nothing in the table is noisy.

    K1   temperature 1: the optimal q tends to the prior. Measured: KL(q || prior) at the optimum, summed and by weight;
         the proposition says that even the sum tends to 0
    K2   |ELBO - F~| <= C p / N. Measured: gap N / p, at a fixed law of the neurons (q around draws from the prior, at
         half the prior's sd) and at the optima: it has to stay bounded. The optimum of F~ itself, which does not know
         of the gap, gives the value that the others tend to
    K3   temperature tau p / N: the balance of the two terms does not depend on N. Measured: temperature * KL over
         p * nll, at the fixed law and at the optimum, beside the same at temperature 1

Each (width, temperature) is kept in the JSON file and is not computed again. About a minute on one core.

    python benchmarks/mean_field_limit.py --out docs/results

[1] Huix, Majewski, Durmus, Moulines, Korba, Variational inference of overparameterized Bayesian neural networks, 2022.
"""

from __future__ import annotations

import argparse
import math
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import posterity as pt
from cached import Cached
from posterity.models import mean_field
from posterity.objectives import elbo_gap, exact_elbo, kl_divergence, limit_functional

NOISE = 0.5
START_SD = 0.5  # times the prior's
Row = dict[str, Any]


def make_data(num_data: int) -> tuple[Tensor, Tensor]:
    x = torch.linspace(-2, 2, num_data, dtype=torch.float64).unsqueeze(1)
    generator = torch.Generator().manual_seed(0)
    y = torch.sin(2 * x) + NOISE * torch.randn(x.shape, generator=generator, dtype=torch.float64)
    return torch.cat([x, torch.ones_like(x)], 1), y


def network(width: int, seed: int) -> pt.BayesianModule:
    torch.manual_seed(seed)
    model = mean_field((2,), 1, hidden=(width,)).double()
    return pt.bayesian(model, prior=math.sqrt(1 / 5), relative_sd=START_SD, seed=seed)


def state(net: pt.BayesianModule, width: int, x: Tensor, y: Tensor, temperature: float) -> Row:
    """The two terms of the objective, and the gap."""
    found = elbo_gap(net, pt.GaussianNoise(NOISE), x, y, temperature=temperature)
    kl = kl_divergence(net.posterior, net.prior).item()
    nll = -(found.elbo + temperature * kl) / len(x)
    return {
        "elbo": found.elbo,
        "gap": found.gap,
        "gap_times_n_over_p": found.gap * width / len(x),
        "kl": kl,
        "kl_per_weight": kl / net.num_weights,
        "nll": nll,
        "balance": temperature * kl / (len(x) * nll),
    }


def measure(width: int, temperature: float, args: argparse.Namespace, *, limit: bool = False) -> Row:
    """At the fixed law, and at the optimum of the ELBO (of F~ with `limit`)."""
    (x, y), net = make_data(args.num_data), network(width, args.seed)
    before = state(net, width, x, y, temperature)
    likelihood, functional = pt.GaussianNoise(NOISE), limit_functional if limit else exact_elbo
    optimizer = torch.optim.LBFGS(
        net.posterior.parameters(),
        max_iter=args.iterations,
        history_size=20,
        tolerance_grad=1e-11,
        tolerance_change=1e-14,
        line_search_fn="strong_wolfe",
    )

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss: Tensor = -functional(net, likelihood, x, y, temperature=temperature) / args.num_data
        loss.backward()
        return loss

    optimizer.step(closure)
    return {"temperature": temperature, "fixed law": before, "optimum": state(net, width, x, y, temperature)}


def table(rows: dict[str, dict[int, Row]]) -> str:
    """A Markdown table, a row a width and rule."""
    lines = [
        "| temperature | neurons N | KL at the optimum (nats) | a weight | nll | gap N/p | gap N/p, fixed law "
        "| balance | balance, fixed law |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for rule, by_width in rows.items():
        for width, row in by_width.items():
            best, fixed = row["optimum"], row["fixed law"]
            cells = [best[key] for key in ("kl", "kl_per_weight", "nll", "gap_times_n_over_p")]
            cells += [fixed["gap_times_n_over_p"], best["balance"], fixed["balance"]]
            lines.append(f"| {rule} | {width} | " + " | ".join(f"{cell:.3g}" for cell in cells) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--widths", type=int, nargs="+", default=[16, 64, 256, 1024, 4096])
    parser.add_argument("--num-data", type=int, default=40)
    parser.add_argument("--tau", type=float, default=0.02, help="by neurons")
    parser.add_argument("--iterations", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("docs/results"), help="folder for mean_field_limit.json")
    args = parser.parse_args()
    torch.set_num_threads(1)
    settings = {key: value for key, value in vars(args).items() if key not in ("out", "widths")}
    kept = Cached(args.out / "mean_field_limit.json", settings)
    rows: dict[str, dict[int, Row]] = {"1": {}, f"{args.tau:g} p/N": {}, f"{args.tau:g} p/N, F~ maximised": {}}
    for rule, by_width in rows.items():
        for width in sorted(args.widths):
            temperature = 1.0 if rule == "1" else args.tau * args.num_data / width
            compute = partial(measure, width, temperature, args, limit="F~" in rule)
            by_width[width] = kept.get(f"{rule} {width}", compute)
    print(table(rows))


if __name__ == "__main__":
    main()
