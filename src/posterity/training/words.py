"""A training in one line for people: what was used, and why."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from posterity.objectives.tempering import AUTO_MOST, Auto
from posterity.storage import EpochRecord
from posterity.training.arrival import ALL
from posterity.training.groups import SD
from posterity.training.plan import Plan


def in_words(plan: Plan, record: EpochRecord, ending: Mapping[str, Any]) -> str:
    """How the network was trained, from its last `record` and what was found at its end."""
    subject, settings = plan.subject, plan.settings
    posterior = subject.net.posterior
    kind = posterior.kind.replace("_", "-")
    parts = [
        f"trained a {kind} posterior over {subject.net.num_weights:,} weights on {subject.num_data:,} data",
        f"{settings.optimizer}, rate {plan.groups[0].base_lr:g}{_sd_rate(plan)}, {settings.schedule}",
        _temperature(plan, record),
        _spread(ending) if posterior.random else "one weight vector: no uncertainty of the weights",
    ]
    if isinstance(ending.get("noise"), float):
        parts.append(f"noise {ending['noise']:.3g} in the units of the training's targets")
    return "; ".join(part for part in parts if part)


def _sd_rate(plan: Plan) -> str:
    rates = [group.base_lr for group in plan.groups if group.name == SD]
    return f" ({rates[0]:g} for the standard deviations)" if rates else ""


def _temperature(plan: Plan, record: EpochRecord) -> str:
    rule, temperature = plan.settings.temperature_rule, record["temperature"]
    if not isinstance(rule, Auto):
        return f"temperature {temperature:.3g}"
    sizes = f"{plan.subject.num_data} data / {plan.subject.net.num_weights} weights"
    by_rule = f"temperature {temperature:.3g} = min({AUTO_MOST:g}, {rule.tau:g} x {sizes})"
    return f"{by_rule}, since a KL of so many weights drowns the data"


def _spread(ending: Mapping[str, Any]) -> str:
    wanted = ending.get("sd_wanted")
    if wanted is None:
        return ""
    return f"the ELBO wants {wanted[ALL]:.3g} times the standard deviations there are (1: they have arrived)"
