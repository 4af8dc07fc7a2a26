"""`posterity penalty`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from posterity.cli.flags import PENALTIES
from posterity.cli.output import note, print_json

NAMES = ", ".join(PENALTIES)


def penalty_command(
    name: Annotated[str, typer.Argument(help=f"the penalty: {NAMES}")],
    inputs: Annotated[int, typer.Option(min=1, help="inputs of the layer: weights start with variance 1/inputs")] = 400,
    group_size: Annotated[int, typer.Option(min=1, help="weights in a group (group lasso)")] = 1,
    family: Annotated[str, typer.Option(help="delta (point networks), gaussian (mean-field) or laplace")] = "delta",
    out: Annotated[Path | None, typer.Option(help="the PNG to write")] = None,
    json: Annotated[bool, typer.Option("--json", help="results as JSON on stdout")] = False,
) -> None:
    """The prior a penalty stands for, its factor, and whether it is a KL divergence of the family.

    Example: posterity penalty l1 --inputs 400 --family gaussian --out l1.png
    """
    from posterity.experiments.penalty import study_penalty
    from posterity.report import penalty_figure, save

    study = study_penalty(name, inputs, group_size=group_size, family=family)
    if out is not None:
        save(penalty_figure(study), out)
    if json:
        print_json(study.as_dict())
        return
    print(f"factor   lambda = {study.factor:.6g}")
    print(f"prior    {study.prior}; each weight has sd {study.sd:.4g} = 1/sqrt({inputs})")
    what = "the penalty" if family == "delta" else "the penalty of the mean alone"
    print(f"verdict  {_verdict(study.alone.is_kl)}: {what}: {study.alone.reason}")
    if study.completed is not None:
        print(
            f"         {_verdict(study.completed.is_kl)}: its expectation minus the entropy: {study.completed.reason}"
        )
    if out is not None:
        note(f"figure: {out}")


def _verdict(is_kl: bool) -> str:
    return "a KL" if is_kl else "not a KL"
