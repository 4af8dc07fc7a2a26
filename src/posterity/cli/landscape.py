"""`posterity landscape`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from posterity.cli.flags import CLIP
from posterity.cli.output import note, print_json
from posterity.cli.sweep import Storage

if TYPE_CHECKING:
    from posterity.experiments.landscape import Landscape


def landscape_command(
    study: Annotated[Path, typer.Argument(help="a study's folder, or any folder of runs")],
    x: Annotated[str, typer.Option(help="the setting across, such as lr or momentum")],
    y: Annotated[str, typer.Option(help="the setting upward")],
    z: Annotated[str, typer.Option(help="the metric, such as nll, val_accuracy or kl")],
    by: Annotated[str | None, typer.Option(help="a setting that makes panels side by side")] = None,
    where: Annotated[
        list[str] | None, typer.Option(help="take runs with, say, optimizer=adam; may be repeated")
    ] = None,
    clip: Annotated[float, typer.Option(help="share of values beyond the colours on either side")] = CLIP,
    log_x: Annotated[bool | None, typer.Option("--log-x/--linear-x", help="by default as the study drew it")] = None,
    log_y: Annotated[bool | None, typer.Option("--log-y/--linear-y", help="by default as the study drew it")] = None,
    curvature: Annotated[list[float] | None, typer.Option(help="draw its robust region; may be repeated")] = None,
    line: Annotated[bool, typer.Option("--line", help="fit and draw the line lr + a momentum <= a")] = False,
    success: Annotated[
        float | None, typer.Option(help="threshold that a success is better than; by default the colours' middle")
    ] = None,
    out: Annotated[Path, typer.Option(help="the PNG to write")] = Path("landscape.png"),
    storage: Storage = None,
    json: Annotated[bool, typer.Option("--json", help="results as JSON on stdout")] = False,
) -> None:
    """A metric over two settings as a filled landscape, with the runs as points.

    Example: posterity landscape runs/momentum --x lr --y momentum --z nll --line --curvature 2
    """
    from posterity.experiments import Results
    from posterity.experiments.compare import chosen
    from posterity.experiments.landscape import landscape, log_axes, other_settings
    from posterity.report import landscape_figure, save

    results = chosen(Results.read(study, storage=storage), where or [])
    groups = {str(key): group for key, group in results.group_by(by).items()} if by else {"": results}
    log = log_axes(study, x, y) | {name: said for name, said in ((x, log_x), (y, log_y)) if said is not None}
    found = {n: landscape(g, x, y, z, clip=clip, success=success, log=log) for n, g in groups.items()}
    save(landscape_figure(found, curvatures=curvature or (), line=line), out)
    beside = sorted({name for group in groups.values() for name in other_settings(group, x, y)})
    if beside:
        note(f"warning: the runs differ in {', '.join(beside)}, too: --where or --by tell them apart")
    summaries = [{**({by: name} if by else {}), **_summary(each, line)} for name, each in found.items()]
    if json:
        print_json(summaries if by else summaries[0])
        return
    for name, summary in zip(found, summaries, strict=True):
        print(f"{name + ': ' if name else ''}{_words(summary, line)}")
    note(f"figure: {out}")


def _summary(each: Landscape, line: bool) -> dict[str, Any]:
    at = each.best
    best = {each.x_axis.name: each.x[at].item(), each.y_axis.name: each.y[at].item(), each.metric: each.z[at].item()}
    fitted = {"line": each.line, "success": each.threshold} if line else {}
    return {"places": len(each.z), "failed": len(each.failed_x), "best": best, **fitted}


def _words(summary: dict[str, Any], line: bool) -> str:
    best = ", ".join(f"{name} {value:.4g}" for name, value in summary["best"].items())
    text = f"best of {summary['places']} places: {best}; {summary['failed']} without a number"
    if not line:
        return text
    if summary["line"] is None:
        return f"{text}; no line: no run failed above the others"
    return f"{text}; line: lr + {summary['line']:.3g} momentum <= {summary['line']:.3g}"
