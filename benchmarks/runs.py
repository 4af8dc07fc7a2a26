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
from pathlib import Path
from typing import Any

import torch

from posterity.core.errors import NonFiniteError
from posterity.experiments import Run, TrainedRun, evaluate, load_run, train_run
from posterity.objectives import kl_divergence

KEPT = ("accuracy", "nll", "ece", "brier", "rmse", "log_likelihood")


def measure(run: Run, folder: Path, *, samples: int = 20) -> dict[str, Any]:
    """Train and evaluate `run`, or read what an earlier call found."""
    out = folder / run.key
    result = out / "measured.json"
    if result.exists():
        found: dict[str, Any] = json.loads(result.read_text())
        return found
    begun = (out / "config.toml").exists()
    history = train_run(run, out, resume=begun).history
    found = {"seconds": history[-1]["seconds"], "step": history[-1]["step"]}
    found["milliseconds"] = 1e3 * found["seconds"] / found["step"]
    for name, trained in _networks(run, out).items():
        test = evaluate(trained, samples=samples, seed=run.seed).test
        kl = kl_divergence(trained.net.posterior, trained.net.prior).item()
        found[name] = {"kl": kl, **{key: test[key] for key in KEPT if key in test}}
    result.write_text(json.dumps(found, indent=1) + "\n")
    return found


def _networks(run: Run, out: Path) -> dict[str, TrainedRun]:
    networks = {"last": load_run(out)}
    if networks["last"].averaged is not None:
        networks["average"] = networks["last"].average()
    if run.average == "hwa":
        swa = load_run(out)
        with torch.no_grad():
            swa.net.posterior.mean.copy_(networks["average"].net.posterior.mean)
        networks["swa"] = swa
    return networks


def measure_all(runs: Iterable[tuple[str, Run]], folder: Path, *, finished: bool = False) -> dict[str, dict[str, Any]]:
    """By label, all or only the `finished` ones; one that diverges is reported with its reason and stops no other."""
    found = {}
    for label, run in runs:
        if finished and not (folder / run.key / "measured.json").exists():
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
