"""A training in one line for people: what was used, and why."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from posterity.objectives.tempering import Auto
from posterity.storage import EpochRecord
from posterity.training.arrival import ALL
from posterity.training.groups import SD
from posterity.training.plan import Plan
from posterity.training.warming import Warming


def in_words(plan: Plan, record: EpochRecord, ending: Mapping[str, Any]) -> str:
    """How the network was trained, from its last `record` and what was found at its end."""
    subject, settings = plan.subject, plan.settings
    posterior = subject.net.posterior
    kind = posterior.kind.replace("_", "-")
    parts = [
        f"trained a {kind} posterior over {subject.net.num_weights:,} weights on {subject.num_data:,} data",
        f"{settings.optimizer}, rate {plan.groups[0].base_lr:.3g}{_sd_rate(plan)}, {settings.schedule}",
        _temperature(plan, record, ending),
        _spread(ending) if posterior.random else "one weight vector: no uncertainty of the weights",
    ]
    if isinstance(ending.get("noise"), float):
        parts.append(f"noise {ending['noise']:.3g} in the units of the training's targets")
    return "; ".join(part for part in parts if part)


def _sd_rate(plan: Plan) -> str:
    rates = [group.base_lr for group in plan.groups if group.name == SD]
    return f" ({rates[0]:.3g} for the standard deviations)" if rates else ""


def _temperature(plan: Plan, record: EpochRecord, ending: Mapping[str, Any]) -> str:
    temperature = f"temperature {ending.get('temperature', record['temperature']):.3g}"
    if not isinstance(plan.settings.temperature_rule.settled, Auto):
        return temperature
    course = plan.course()
    if isinstance(course, Warming):
        early = f"{course.cold:.3g} at first, so that no hidden unit is given up early"
        return f"{temperature} in the end{', by what data left out would show' if course.looks else ''}; {early}"
    kl, num_data = record["kl"], plan.subject.num_data
    if not math.isfinite(kl) or not plan.subject.net.posterior.random:
        return temperature
    return f"{temperature}, since a KL of {kl / num_data:.3g} nats a datum drowns the data"


def _spread(ending: Mapping[str, Any]) -> str:
    wanted = ending.get("sd_wanted")
    if wanted is None:
        return ""
    return f"the ELBO wants {wanted[ALL]:.3g} times the standard deviations there are (at 1 they have arrived)"
