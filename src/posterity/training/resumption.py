"""Whether a stored training may be gone on with: network, settings, data and callbacks must be those it began with.

What was not known when the checkpoint was written has its default: a setting that was added since does not stop a run.
The number of epochs may have grown. The schedules are functions of the share of the training that is done, and so are
stretched: the rate goes on where the longer course has it, which for a cosine that had ended at 0 is up again.
The start of an average is stretched, too; the snapshots that it has stay in it.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch

from posterity.core.errors import UsageError
from posterity.core.hosting import printed
from posterity.priors import Prior
from posterity.storage import describe
from posterity.training.plan import Plan

if TYPE_CHECKING:
    from posterity.training.settings import Settings


class ProlongedWarning(UserWarning):
    """A run goes on for more epochs than it was begun with."""


def description(plan: Plan) -> dict[str, Any]:
    """What is trained, in plain values: weights, modules, posterior, prior with its scales, likelihood."""
    subject = plan.subject
    found = describe(subject.net, prior=subject.prior, likelihood=subject.likelihood)
    found["modules"] = printed(subject.net.model)
    if not plan.settings.learn_prior:  # a learnt scale is another in every epoch
        found["prior's values"] = _digest(subject.prior)
    return found


def check_resumable(plan: Plan, state: Mapping[str, Any], *, num_callbacks: int) -> None:
    """Refuse to go on from `state` with another training than the one that it is of."""
    _check_settings(plan.settings, state)
    if len(state["callbacks"]) != num_callbacks:
        found = len(state["callbacks"])
        raise UsageError(f"a run resumes only with the callbacks it began with: {found} then, {num_callbacks} now")
    if state["data"] != plan.data_checksum:
        raise UsageError("a run resumes only with the data it began with; these have other values")
    check_network(description(plan), state["description"])
    if plan.settings.length > state["settings"]["epochs"]:
        _announce(plan.settings.length, state)


def check_network(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> None:
    """Refuse another network than the one that a stored training has, both by their `description`."""
    for part in ours:
        if ours[part] != theirs.get(part):
            raise UsageError(
                f"a run resumes only with the network it began with; its {part} was "
                f"{_difference(theirs.get(part), ours[part])}"
            )


def _check_settings(settings: Settings, state: Mapping[str, Any]) -> None:
    ours = settings.training_values()
    theirs = {**type(settings)().training_values(), **state["settings"]}
    changed = [f"{k} was {v}, now {ours.get(k)}" for k, v in theirs.items() if ours.get(k) != v and k != "epochs"]
    before, now = theirs["epochs"], ours["epochs"]
    if now < before:
        changed.append(f"epochs was {before}, now {now}")
    if changed:
        raise UsageError("a run resumes only with the settings it began with: " + "; ".join(changed))
    if now > before and state["stopped"] not in ("", "epochs"):
        raise UsageError(f"the run has stopped ({state['stopped']}): more epochs do not change that")


def _announce(now: int, state: Mapping[str, Any]) -> None:
    """Say what more epochs do to the run."""
    before, done = state["settings"]["epochs"], state["batches"]["epoch"]
    best = (
        " It goes on from the best weights, which were restored at its end."
        if state["best"] and state["stopped"]
        else ""
    )
    warnings.warn(
        f"prolonged from {before} to {now} epochs, of which {done} are done: schedules and averages are stretched over "
        f"all {now}, so that the rate goes on as in a training of {now} epochs (a cosine that had ended at 0 is up "
        f"again).{best}",
        ProlongedWarning,
        stacklevel=2,
    )


def _digest(prior: Prior) -> str:
    digest = hashlib.sha256()
    for name, tensor in sorted(prior.state_dict().items()):
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()[:16]


def _difference(before: Any, now: Any) -> str:
    """What differs, without what does not."""
    if isinstance(before, dict) and isinstance(now, dict):
        changed = [key for key in {**before, **now} if before.get(key) != now.get(key)]
        before, now = ({key: part.get(key) for key in changed} for part in (before, now))
    elif isinstance(before, list) and isinstance(now, list):
        before, now = ([line.strip() for line in a if line not in b] for a, b in ((before, now), (now, before)))
    return f"{before}, and is now {now}"
