"""Figure of a learning-rate range test."""

from __future__ import annotations

from matplotlib.figure import Figure

from posterity.report.figures import BLUE, INK, ORANGE, SKY, legend_above, row
from posterity.training import RangeTest

LABELS = {"nll": "nll per datum (nats)", "loss": "negative ELBO per datum (nats)"}


def range_figure(result: RangeTest, title: str = "") -> Figure:
    """The nll, or the loss, by learning rate, smoothed, with the suggested rate marked, if there is one."""
    rates, losses, diverged, suggestion = result.rates, result.losses, result.diverged, result.suggestion
    figure, (axes,) = row(1, width=6.2, height=3.8)
    axes.plot(rates, losses, color=SKY, linewidth=1, alpha=0.6, label="each batch")
    axes.plot(rates, result.smoothed, color=BLUE, linewidth=2, label="smoothed")
    if suggestion is not None:
        axes.axvline(suggestion, color=ORANGE, linewidth=1.5, linestyle="--", label=f"suggested: {suggestion:.2g}")
    calm = [loss for rate, loss in zip(rates, losses, strict=True) if diverged is None or rate < diverged] or losses
    margin = 0.05 * (max(calm) - min(calm)) + 1e-9
    axes.set_ylim(min(calm) - margin, max(calm) + margin)
    axes.set_xscale("log")
    axes.set_xlabel("learning rate")
    axes.set_ylabel(LABELS[result.measure])
    axes.set_title(title, fontsize=11, color=INK, pad=24)
    legend_above(axes)
    return figure
