"""The methods of `defaults.py` in the order of its tables, and ours among them.

A cell of ours belongs to a run, whose key is in the cell's name: changed defaults are run anew. What this version of
the library does not have is left out with a word.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch

import posterity
from defaults_baselines import (
    MEMBERS,
    MUON_TRIALS,
    Cell,
    Fitted,
    dropout,
    ensemble,
    ivon_opt,
    laplace_torch,
    map_,
    plain,
    plain_muon,
    plain_network,
    rate_of,
    scaled,
)
from defaults_peers import bayesian_torch, torch_blue
from defaults_repeats import repeatable
from defaults_rules import rules
from defaults_swag import TRIALS, swag
from defaults_tasks import SAMPLES
from defaults_training import stored_as
from defaults_verdicts import OURS
from peers import imported
from posterity.experiments import Record, Run, execute


def run_of(cell: Cell, **more: int) -> Run:
    """What the library is told."""
    return cell.task.run(cell.seed, cell.epochs, **more)


def ours(cell: Cell, **more: int) -> Fitted:
    run = run_of(cell, **more)
    name = "ours-ensemble" if more else OURS
    record = execute(run, run_folder(cell, run, name), resume=True, samples=SAMPLES)
    net = record.load().net
    seconds = {line.get("member"): line["seconds"] for line in record.history}  # the last epoch's has them all
    return Fitted(lambda x: net.predictive(x, SAMPLES, seed=cell.seed), sum(seconds.values()))


def run_folder(cell: Cell, run: Run, method: str) -> Path:
    """Where the run of a cell of ours is: one of other rules is not gone on with."""
    return cell.folder / method / "runs" / f"{cell.seed}-{run.key}-{rules()}"


def ours_repeats(cell: Cell, scores: Mapping[str, float]) -> dict[str, list[float]]:
    run = run_of(cell)
    return repeatable(cell, run, Record.read(run_folder(cell, run, OURS)), scores)


def ours_laplace(cell: Cell) -> Fitted:
    rate = rate_of(cell)
    network = plain_network(cell, rate, cell.member)
    begun = time.perf_counter()
    module = stored_as(network.model, torch.contiguous_format)
    net = imported("posterity").laplace(module, cell.problem.train, structure="last_layer", seed=cell.seed)
    seconds = network.seconds + time.perf_counter() - begun
    return Fitted(lambda x: net.predictive(x, SAMPLES, seed=cell.seed), seconds, {"rate": rate})


@dataclass(frozen=True)
class Method:
    """What it is, how it is fitted, about what it costs beside plain.

    Of ours: the `run` that its cells belong to, and the numbers that can be made again (`repeats`) of a first seed's
    cell with its scores. `lacks` says why it is left out. It may know `classes` alone. A `peer` is a method of
    `quality.py`, and of `defaults.py` where it is asked for by name. `rates` names the trials that its rate is from;
    None: its authors'.
    """

    about: str
    fit: Callable[[Cell], Fitted]
    cost: float = 1.0
    run: Callable[[Cell], Run] | None = None
    repeats: Callable[[Cell, Mapping[str, float]], dict[str, list[float]]] | None = None
    lacks: str = ""
    classes: bool = False
    peer: bool = False
    rates: str | None = ""


NO_ENSEMBLE = "" if "ensemble" in Run.model_fields else "this version's `Run` has no field ensemble"
NO_LAPLACE = "" if hasattr(posterity, "laplace") else "this version of posterity has no laplace"
OF_FIVE = partial(run_of, ensemble=MEMBERS)

METHODS = {
    "plain": Method(
        "maximum likelihood; the best rate of 0.001, 0.003, 0.01 by the nll on a held-out tenth, once for a task",
        plain,
    ),
    "plain-muon": Method(
        "plain with the optimiser of our means, Muon for matrices and AdaBayes-FP for the rest; the best rate of "
        "0.002, 0.005, 0.01, 0.02",
        plain_muon,
        1.3,
        classes=True,
        rates=MUON_TRIALS,
    ),
    "map": Method("the same with the prior N(0, 2 / n_in)", map_),
    "dropout": Method("Monte-Carlo dropout (0.05, images 0.2), 32 passes", dropout, 1.6),
    "scaled": Method("plain on nine tenths; one temperature (a regression: the noise) from the other tenth", scaled),
    "ivon-opt": Method("IVON by its authors, as in their readme: rate 0.1, ess n, their defaults", ivon_opt, 2.5),
    "ensemble": Method("5 plain networks", ensemble, 4.0),
    "laplace-torch": Method(
        "last layer of the plain network, Kronecker factors, prior precision by marginal likelihood", laplace_torch, 0.5
    ),
    "bayesian-torch": Method(
        "mean-field by its reparameterised layers, as in its readme: Adam 0.001, its KL (a mean within each tensor) / "
        "size of a batch, prior N(0, 1), 32 samples",
        bayesian_torch,
        2.5,
        classes=True,
        peer=True,
        rates=None,
    ),
    "torch_blue": Method(
        "mean-field as in its quick start: Adam 0.001, KL at the sampled weights / number of data, prior N(0, 1), 32 "
        "samples; it begins at the network's initial weights with sd 0.05 (from its own start, sd 1 / sqrt(n_in), "
        "LeNet-5 learnt nothing in an epoch of MNIST); "
        "batch norm, where there is any, by the statistics of 100 test rows, since it cannot keep averages",
        torch_blue,
        3.0,
        classes=True,
        peer=True,
        rates=None,
    ),
    "swag": Method(
        "SGD with momentum 0.9, weight decay 0.0003, the best first rate of 0.01, 0.03, 0.1 (as of plain), a tenth of "
        "it in the second half; diagonal and rank 20 from 20 snapshots, 30 samples; our own implementation",
        swag,
        1.2,
        classes=True,
        peer=True,
        rates=TRIALS,
    ),
    OURS: Method(
        "`fit` with no option beside data, network, epochs and seed, 32 samples", ours, 2.0, run_of, ours_repeats
    ),
    "ours-ensemble": Method(
        "the same with ensemble=5, 32 samples", partial(ours, ensemble=MEMBERS), 10.0, OF_FIVE, lacks=NO_ENSEMBLE
    ),
    "ours-laplace": Method(
        "posterity's laplace of the plain network's last layer, its own defaults, 32 samples",
        ours_laplace,
        0.5,
        lacks=NO_LAPLACE,
    ),
}
