"""Tables and the figure of posterior_quality.py."""

from __future__ import annotations

import json
import platform
import statistics
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

COLUMNS = {
    "tv, data": "total variation between the predictive and NUTS's (T = 1), mean over held-out inputs; 0 is the same",
    "tv, away": "the same where there were no training inputs: inside the gap, or around the moons",
    "mean rmse, away": "root mean square distance of the predictive means from NUTS's, away from the data",
    "sd ratio, data": "predictive sd over NUTS's, geometric mean over held-out inputs; below 1 is overconfident",
    "sd ratio, away": "the same away from the data",
    "agreement, data": "share of held-out inputs at which the most probable class is NUTS's",
    "agreement, away": "the same away from the data",
    "tv same T, data": "total variation from NUTS at the candidate's own temperature: how well it fits its own target",
    "tv same T, away": "the same away from the data",
    "nll": "mean negative log predictive density (or probability) of held-out targets",
    "coverage": "share of held-out targets in the predictive's central 90 % interval",
    "ece": "expected calibration error on held-out data, 15 bins",
    "loss": "what a variational training minimises, the negative ELBO at the candidate's temperature, in nats",
    "seconds": "processor time of the training, one thread (for NUTS: of the sampling, compilation included)",
}
SHOWN = ("NUTS", "mean-field", "low-rank, R = 20", "HWA, total", "preconditioned SGLD", "point (MAP)")


@dataclass
class Row:
    """A candidate's numbers, a set for each seed; or the `reason` why there are none."""

    label: str
    temperature: float
    seeds: list[dict[str, float]]
    reason: str = ""
    outputs: dict[str, Tensor] | None = field(default=None, repr=False)

    def cell(self, column: str) -> str:
        """Mean and, for several seeds, their standard deviation."""
        values = [numbers[column] for numbers in self.seeds if column in numbers]
        if not values:
            return ""
        digits = 1 if column in ("seconds", "loss") else 3
        text = f"{statistics.fmean(values):.{digits}f}"
        return text if len(values) == 1 else f"{text} ± {statistics.stdev(values):.{digits}f}"

    def brief(self) -> str:
        """One line."""
        return f"{self.label}: {self.reason or ', '.join(f'{c} {self.cell(c)}' for c in COLUMNS if self.cell(c))}"


def table(result: dict[str, Any]) -> list[str]:
    """Markdown: a row a candidate, in the order they were given."""
    rows: list[Row] = result["rows"]
    columns = [c for c in COLUMNS if any(row.cell(c) for row in rows)]
    lines = ["| | " + " | ".join(columns) + " |", "|---" * (len(columns) + 1) + "|"]
    lines += [f"| {r.label} | " + " | ".join(r.cell(c) for c in columns) + " |" for r in rows if r.seeds]
    return lines + [""] + [f"Left out: {r.label} ({r.reason})." for r in rows if r.reason]


def truth_line(facts: dict[str, Any]) -> str:
    """What NUTS did, and whether it may be called the truth."""
    verdict = "converged" if facts["converged"] else "NOT converged: distances from it are only an indication"
    return (
        f"NUTS at T = {facts['temperature']:g}: {facts['draws']} draws of 4 chains, {facts['steps']:.0f} gradients a "
        f"draw, {facts['divergences']} divergences, {facts['seconds']:.0f} s; predictions' split R-hat at most "
        f"{facts['r_hat']['max']:.3f} (median {facts['r_hat']['median']:.3f}), effective sample size at least "
        f"{facts['effective']['min']:.0f} (median {facts['effective']['median']:.0f}): {verdict}."
    )


def text(results: list[dict[str, Any]], seeds: int) -> str:
    """The whole page."""
    lines = [
        "# Posterior quality",
        "",
        "Approximate posteriors against NUTS on the same posterior, P(y | w)^(1/T) prior(w), as functions. Numbers are "
        f"means ± standard deviations over {seeds} seed(s) of initial weights and noise; the data are the same. The "
        "second row is the floor: what one gets from two halves of the truth by chance.",
        "",
        *(f"- **{column}**: {meaning}" for column, meaning in COLUMNS.items()),
    ]
    for result in results:
        problem = result["problem"]
        sizes = [*problem.train.input_shape, *problem.hidden, problem.train.num_outputs]
        lines += ["", f"## {problem.name}: {'-'.join(map(str, sizes))} tanh, {len(problem.train)} data", ""]
        lines += [f"- {truth_line(facts)}" for facts in result["nuts"]] + ["", *table(result)]
    lines += ["", f"torch {torch.__version__}, {platform.machine()}; `benchmarks/posterior_quality.py`."]
    return "\n".join(lines)


def write(results: list[dict[str, Any]], seeds: int, out: Path | None) -> str:
    """The page, also written to the folder `out` together with the numbers."""
    page = text(results, seeds)
    if out:
        out.mkdir(parents=True, exist_ok=True)
        (out / "posterior_quality.md").write_text(page + "\n")
        plain = {
            result["problem"].name: {
                "nuts": result["nuts"],
                "candidates": {
                    row.label: {"temperature": row.temperature, "seeds": row.seeds, "reason": row.reason}
                    for row in result["rows"]
                },
            }
            for result in results
        }
        (out / "posterior_quality.json").write_text(json.dumps(plain, indent=1) + "\n")
    return page


def draw_bands(result: dict[str, Any], path: Path) -> None:
    """Predictive means and bands of 2 standard deviations, a panel a posterior, on the same axes."""
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    problem, rows = result["problem"], {row.label: row for row in result["rows"]}
    x = problem.curve[:, 0]
    nuts = _band(rows["NUTS"].outputs["curve"], problem.noise)
    figure, axes = plt.subplots(2, 3, figsize=(11, 6), sharex=True, sharey=True, layout="constrained")
    for axis, label in zip(axes.flat, SHOWN, strict=True):
        axis.set_title(label, fontsize=11, loc="left")
        axis.spines[["top", "right"]].set_visible(False)
        axis.plot(problem.train.x[:, 0], problem.train.y[:, 0], ".", color="0.35", markersize=3, zorder=3.5)
        row = rows.get(label)
        if row is None or row.outputs is None:
            axis.text(0.5, 0.05, "not measured", transform=axis.transAxes, ha="center", color="0.5")
            continue
        mean, low, high = _band(row.outputs["curve"], problem.noise)
        axis.fill_between(x, low, high, color="tab:blue", alpha=0.25, linewidth=0, zorder=2)
        axis.plot(x, mean, color="tab:blue", linewidth=1.5, zorder=3)
        for edge in nuts[1:]:
            axis.plot(x, edge, color="black", linewidth=0.9, linestyle="--", zorder=4)
    axes[0, 0].set_ylim((nuts[1].min() - 0.5).item(), (nuts[2].max() + 0.5).item())
    figure.supxlabel("x")
    figure.supylabel("y")
    figure.suptitle("Predictive mean and ± 2 sd (blue); NUTS's ± 2 sd (dashed); training data (grey)", fontsize=11)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _band(means: Tensor, noise: float) -> tuple[Tensor, Tensor, Tensor]:
    """Mean, mean - 2 sd and mean + 2 sd (n,) of the predictive with means (S, n, 1)."""
    mean, sd = means[..., 0].mean(0), (means[..., 0].var(0, correction=0) + noise**2).sqrt()
    return mean, mean - 2 * sd, mean + 2 * sd
