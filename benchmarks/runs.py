"""Runs of a table: each is trained and evaluated once; what is there already is not computed again.

    measure(run, folder)  ->  {milliseconds a step, last: {accuracy, nll, ece, kl}, average: {...}, swa: {...}}

`last` is where the training ended, `average` what it averaged or collected, `swa` the average of the means with the
last standard deviations: what SWA would have given in the same training as HWA.

A run's folder is its key, the hash of its settings: a table that was cut off goes on where it stopped, within a run
from the last checkpoint.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from posterity.core.errors import NonFiniteError
from posterity.experiments import Record, Run, Trained, evaluate, execute
from posterity.objectives import kl_divergence

KEPT = ("accuracy", "nll", "ece", "brier", "rmse", "log_likelihood")


def measure(run: Run, folder: Path, *, samples: int = 20) -> dict[str, Any]:
    """Train and evaluate `run`; what is there already is read."""
    record = execute(run, folder / run.key, resume=True, samples=samples)
    last = record.summary["last"]
    found: dict[str, Any] = {"seconds": last["seconds"], "step": last["step"]}
    found["milliseconds"] = 1e3 * found["seconds"] / found["step"]
    for name, trained in _networks(record).items():
        stored = {"last": record.test, "average": record.evaluation.get("average", {}).get("test")}
        test = stored.get(name) or evaluate(trained, samples=samples, seed=run.seed)["last"].test
        kl = kl_divergence(trained.net.posterior, trained.net.prior).item()
        found[name] = {"kl": kl, **{key: test[key] for key in KEPT if key in test}}
    return found


def _networks(record: Record) -> dict[str, Trained]:
    trained = record.load()
    networks = trained.networks()
    if record.run.average == "hwa":
        swa = replace(trained, averaged=None)
        with torch.no_grad():
            swa.net.posterior.mean.copy_(networks["average"].net.posterior.mean)
        networks = {**record.load().networks(), "swa": swa}
    return networks


def measure_all(runs: Iterable[tuple[str, Run]], folder: Path, *, finished: bool = False) -> dict[str, dict[str, Any]]:
    """By label, all or only the `finished` ones; one that diverges is reported with its reason and stops no other."""
    found = {}
    for label, run in runs:
        if finished and not ((folder / run.key / "config.toml").exists() and Record.read(folder / run.key).finished):
            continue
        try:
            found[label] = measure(run, folder)
        except NonFiniteError as error:  # a diverged run is a result of the table
            found[label] = {"failed": f"{type(error).__name__}: {error}"}
        print(label, json.dumps(found[label]), file=sys.stderr, flush=True)
    return found


def publish(name: str, about: str, table: str, found: dict[str, Any], out: Path | None) -> None:
    """Print the table and, with `out`, write it there beside what the script says of itself, and the numbers."""
    print(table)
    if out is None:
        return
    out.mkdir(parents=True, exist_ok=True)
    title, _, rest = about.partition("\n")
    (out / f"{name}.md").write_text(f"# {title.rstrip('.')}\n{rest}\n{table}\n")
    (out / f"{name}.json").write_text(json.dumps(found, indent=1) + "\n")
