"""The baselines of `defaults.py`: a method takes a cell (a task for a seed) and gives a predictive.

Seed s of plain is the member 5 s of the ensemble's 5 s .. 5 s + 4. They use the settings written here and in
`defaults_training.py` and no default of this library, map and dropout the rate of plain. Plain networks are kept, since
others build on them. What each of them is says `defaults_methods.py`.
"""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from defaults_tasks import BATCH, Predict, Problem, Task, problem
from defaults_training import (
    IVON,
    Network,
    adam,
    fit,
    initial,
    muon,
    noise_of,
    outputs,
    predictive,
    residual_sd,
    sampled_outputs,
    stored_as,
    with_dropout,
)
from peers import imported
from posterity.core.randomness import generator
from posterity.data import Dataset
from posterity.likelihoods import Prediction, RealPrediction
from posterity.likelihoods.classes import predict_classes
from posterity.storage.atomic import read_json, replace_file, write_text

RATES = (1e-3, 3e-3, 1e-2)
MUON_RATES, MUON_TRIALS = (2e-3, 5e-3, 1e-2, 2e-2), "muon-"
MEMBERS = 5
HELD_OUT = 0.1


@dataclass(frozen=True)
class Cell:
    """A task for a seed, for so many epochs; what is kept of it is in `folder`."""

    task: Task
    seed: int
    epochs: int
    folder: Path

    @property
    def problem(self) -> Problem:
        return problem(self.task, self.seed)

    @property
    def member(self) -> int:
        """The first member of its ensemble."""
        return MEMBERS * self.seed


@dataclass(frozen=True)
class Fitted:
    """A predictive at standardised inputs, the seconds of training, and what was chosen on the way."""

    predict: Predict
    seconds: float
    chosen: dict[str, Any] = field(default_factory=dict)


def nine_tenths(cell: Cell) -> tuple[Dataset, Dataset]:
    """(training, held out), both standardised as the whole."""
    return cell.problem.train.split(HELD_OUT, generator(cell.seed, "held out"))


Optimise = Callable[[nn.Module, float], torch.optim.Optimizer]


def plain_network(
    cell: Cell, rate: float, member: int, *, held_out: bool = False, optimise: Optimise = adam, name: str = ""
) -> Network:
    """A network by maximum likelihood, trained or read; those of another optimiser than Adam are kept by `name`."""
    train = nine_tenths(cell)[0] if held_out else cell.problem.train
    model = initial(cell.task, train, member)
    data = name + ("tenth" if held_out else "whole")
    path = cell.folder / "networks" / f"{data}-{rate:g}-{cell.epochs}-{cell.seed}-{member}.pt"
    if path.exists():
        kept = torch.load(path, weights_only=True)
        model.load_state_dict(kept["state"])
        return Network(model.eval(), kept["seconds"])
    seconds = fit(model, optimise(model, rate), train, epochs=cell.epochs, seed=member)
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, lambda partial: torch.save({"state": model.state_dict(), "seconds": seconds}, partial))
    return Network(model, seconds)


def rate_of(cell: Cell) -> float:
    """The best of RATES for the task, by the nll on the tenth that seed 0 holds out."""
    return best_rate(cell, RATES, _plain_trial)


Trial = Callable[[Cell, float], dict[str, float]]


def best_rate(cell: Cell, rates: Iterable[float], trial: Trial, *, name: str = "") -> float:
    """The one of `rates` whose `trial` has the lowest nll, for all seeds that of seed 0; trials are kept by `name`."""
    first = Cell(cell.task, 0, min(cell.epochs, cell.task.trial_epochs or cell.epochs), cell.folder)
    known = read_json(chosen_path(cell, name))
    if known:
        return float(known["rate"])
    found = {}
    for rate in rates:
        path = first.folder / "rate" / f"{name}{rate:g}-{first.epochs}.json"
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            write_text(path, json.dumps({"rate": rate, **trial(first, rate)}) + "\n")
        nll = float(json.loads(path.read_text())["nll"])
        found[rate] = nll if nll == nll else float("inf")
    best = min(found, key=found.__getitem__)
    keep_rate(cell, best, name=name)
    return best


def chosen_path(cell: Cell, name: str = "") -> Path:
    """Where the rate is kept that was chosen for the task of `cell`."""
    return cell.folder / "rate" / f"{name}chosen-{cell.epochs}.json"


def keep_rate(cell: Cell, rate: float, name: str = "") -> None:
    """Write the rate that was chosen, here or where a stored table was made."""
    path = chosen_path(cell, name)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, json.dumps({"rate": rate}) + "\n")


def _plain_trial(first: Cell, rate: float, **kind: Any) -> dict[str, float]:
    train, held = nine_tenths(first)
    network = plain_network(first, rate, first.member, held_out=True, **kind)
    values = outputs(network.model, held.x)[None]
    nll = held_nll(predictive(values, noise_of(network, first.problem, 0, train)), held)
    return {"nll": nll, "seconds": network.seconds}


def held_nll(prediction: Prediction, held: Dataset) -> float:
    """The mean over the rows of `held`."""
    return -prediction.log_prob(held.y).double().mean().item()


def fitted(cell: Cell, network: Network, **chosen: Any) -> Fitted:
    """The predictive of one network."""
    noise = noise_of(network, cell.problem, cell.seed)
    return Fitted(lambda x: predictive(sampled_outputs(network, x, cell.seed), noise), network.seconds, chosen)


def plain(cell: Cell) -> Fitted:
    rate = rate_of(cell)
    return fitted(cell, plain_network(cell, rate, cell.member), rate=rate)


def plain_muon(cell: Cell) -> Fitted:
    kind: dict[str, Any] = {"optimise": muon, "name": MUON_TRIALS}
    rate = best_rate(cell, MUON_RATES, partial(_plain_trial, **kind), name=MUON_TRIALS)
    return fitted(cell, plain_network(cell, rate, cell.member, **kind), rate=rate)


def map_(cell: Cell) -> Fitted:
    rate, train = rate_of(cell), cell.problem.train
    model = initial(cell.task, train, cell.member)
    optimizer = adam(model, rate, num_data=len(train))
    seconds = fit(model, optimizer, train, epochs=cell.epochs, seed=cell.member, follow=True)
    return fitted(cell, Network(model, seconds), rate=rate)


def dropout(cell: Cell) -> Fitted:
    rate, train = rate_of(cell), cell.problem.train
    model = with_dropout(initial(cell.task, train, cell.member), cell.task.images)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(cell.member)
        seconds = fit(model, adam(model, rate), train, epochs=cell.epochs, seed=cell.member)
    for layer in model.modules():
        layer.train(isinstance(layer, nn.Dropout))  # children come after their parents
    return fitted(cell, Network(model, seconds, torch.no_grad), rate=rate)


def scaled(cell: Cell) -> Fitted:
    rate, held = rate_of(cell), nine_tenths(cell)[1]
    network = plain_network(cell, rate, cell.member, held_out=True)
    values = outputs(network.model, held.x)
    if cell.problem.regression:
        noise = residual_sd(values[None], held.y)
        return Fitted(lambda x: predictive(outputs(network.model, x)[None], noise), network.seconds, {"rate": rate})
    heat = best_temperature(values, held.y)
    chosen = {"rate": rate, "temperature": heat}
    return Fitted(lambda x: predictive(outputs(network.model, x)[None] / heat, None), network.seconds, chosen)


def best_temperature(logits: Tensor, y: Tensor) -> float:
    """The T that minimises the nll of softmax(logits / T), by ternary search: it is convex in 1 / T."""
    low, high = -4.0, 4.0  # of log 1 / T

    def nll(at: float) -> float:
        inverse = torch.tensor(at, dtype=torch.float64).exp()
        return F.cross_entropy(logits.double() * inverse, y).item()

    for _ in range(60):
        left, right = low + (high - low) / 3, high - (high - low) / 3
        low, high = (low, right) if nll(left) <= nll(right) else (left, high)
    return float(torch.tensor(-(low + high) / 2, dtype=torch.float64).exp())


def ivon_opt(cell: Cell) -> Fitted:
    train = cell.problem.train
    model = initial(cell.task, train, cell.member)
    optimizer = imported("ivon").IVON(model.parameters(), ess=len(train), **IVON)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(cell.member)
        seconds = fit(model, optimizer, train, epochs=cell.epochs, seed=cell.member, follow=True)
    return fitted(cell, Network(model, seconds, optimizer.sampled_params), **IVON)


def ensemble(cell: Cell) -> Fitted:
    rate = rate_of(cell)
    networks = [plain_network(cell, rate, cell.member + i) for i in range(MEMBERS)]
    noises = [noise_of(network, cell.problem, cell.seed) for network in networks]
    sds = [noise.view(1, -1) for noise in noises if noise is not None]

    def predict(x: Tensor) -> Prediction:
        values = torch.stack([outputs(network.model, x) for network in networks])
        return predictive(values, torch.stack(sds) if sds else None)

    return Fitted(predict, sum(network.seconds for network in networks), {"rate": rate})


def laplace_torch(cell: Cell) -> Fitted:
    library, rate, at = imported("laplace"), rate_of(cell), cell.problem
    network = plain_network(cell, rate, cell.member)
    stored_as(network.model, torch.contiguous_format)  # its curvature takes views of the weights
    noise = noise_of(network, at, cell.seed)
    kind, options = ("classification", {}) if noise is None else ("regression", {"sigma_noise": noise.item()})
    begun = time.perf_counter()
    with warnings.catch_warnings(), torch.random.fork_rng(devices=[]):
        warnings.simplefilter("ignore")
        torch.manual_seed(cell.member)
        la = library.Laplace(network.model, kind, "last_layer", "kron", **options)
        la.fit(DataLoader(TensorDataset(at.train.x, at.train.y), batch_size=BATCH))
        la.optimize_prior_precision(method="marglik")
    seconds = network.seconds + time.perf_counter() - begun

    def predict(x: Tensor) -> Prediction:
        parts = [la(part) for part in x.split(BATCH)]
        if noise is None:
            return predict_classes(torch.cat(parts).detach()[None])
        mean, variance = (torch.cat(values).detach() for values in zip(*parts, strict=True))
        return RealPrediction(mean, noise.expand_as(mean), variance.flatten(1).sqrt())

    return Fitted(predict, seconds, {"rate": rate, "prior_precision": float(la.prior_precision)})
