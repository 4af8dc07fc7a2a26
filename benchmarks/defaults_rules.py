"""What the tables of our defaults are made with: all defaults of a run, and what rules and optimisers make of them.

A table is of the present defaults where `changed_defaults` finds nothing; a cell of ours counts under the digest of
`rules` alone.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import lru_cache
from types import ModuleType
from typing import Any

from posterity import initialisation
from posterity.experiments import Run
from posterity.experiments.build import build_data, build_network
from posterity.experiments.run import SCHEMA
from posterity.likelihoods import gaussian, student_fit
from posterity.objectives import balance, tempering
from posterity.optim import adabayes, build, muon
from posterity.priors import scales
from posterity.training import ending, left_out, leverage, loop, plan, settings, warming
from posterity.training.methods import gradient

RULES = (  # the modules whose numbers decide the course of a training without options, and what it ends with
    adabayes,
    balance,
    build,
    ending,
    gaussian,
    gradient,
    initialisation,
    left_out,
    leverage,
    loop,
    muon,
    scales,
    settings,
    student_fit,
    tempering,
    warming,
)
PLANNED = ("two-moons", "diabetes")  # classes, whose matrices Muon trains; a regression that warms
OWN = ("lr", "lr_sgd", "betas", "eps", "momentum", "weight_decay")  # of an optimiser's settings, what changes a result


def present_defaults() -> dict[str, Any]:
    """What a table is made with: the schema, all defaults of a run, and what becomes of them (`effective`)."""
    return {"schema": SCHEMA, "defaults": Run().as_dict(), "effective": effective()}


@lru_cache(maxsize=1)
def effective() -> dict[str, Any]:
    """What runs without options are trained with on PLANNED: what rules and optimisers decide by themselves."""
    found: dict[str, Any] = {name: _planned(Run(dataset=name)) for name in PLANNED}
    found["optimisers"] = [gradient.OPTIMIZER, gradient.SMALL_OPTIMIZER]
    found["constants"] = {module.__name__.removeprefix("posterity."): constants(module) for module in RULES}
    plain: dict[str, Any] = json.loads(json.dumps(found, default=lambda t: [float(f"{v:.6g}") for v in t.tolist()]))
    return plain


def _planned(run: Run) -> dict[str, Any]:
    train = build_data(run).train
    net = build_network(run, train)
    planned = plan(net, train, None, run)
    found = {
        "weights": net.num_weights,
        "prior sd": net.prior.sd.unique(),
        "initial sd": net.posterior.sd.detach().unique(),
        "epochs": planned.settings.length,
        "temperature": planned.temperature(0.0),
        "course": type(planned.course()).__name__,
    }
    for group in planned.groups:
        own = {name: group.settings[name] for name in OWN if name in group.settings}
        found[group.name] = {"optimiser": type(group.optimizer).__name__, **own}
    return found


def constants(module: ModuleType) -> dict[str, Any]:
    """The numbers that a module names, also those that it has from others."""
    named = {name: value for name, value in vars(module).items() if name.isupper()}
    plain = {name: value if isinstance(value, tuple) else (value,) for name, value in named.items()}
    return {n: named[n] for n in sorted(plain) if plain[n] and all(type(v) in (int, float) for v in plain[n])}


def rules() -> str:
    """A digest of what becomes of the defaults: cells of ours that other constants have made do not count."""
    return hashlib.sha256(json.dumps(effective(), sort_keys=True).encode()).hexdigest()[:8]


def changed_defaults(stored: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """By name, what the table was made with and what there is now. An option that was added changes no run."""
    now = present_defaults()
    pairs = {name: (stored[name], now[name]) for name in ("schema", "effective")}
    pairs |= {name: (value, now["defaults"].get(name, "gone")) for name, value in stored["defaults"].items()}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}
