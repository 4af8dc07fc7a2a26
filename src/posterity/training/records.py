"""What is recorded of an epoch: loss and its parts, score, learnt noise, temperature, rates, diagnostics, warnings."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch

from posterity.core.errors import NonFiniteError
from posterity.objectives import kl_by_weight
from posterity.storage import EpochRecord
from posterity.training.diagnostics import ADVICE, group_diagnostics, health_warnings, signal_to_noise

if TYPE_CHECKING:
    from posterity.training.loop import Training


def record_of(training: Training) -> EpochRecord:
    """The record of the epoch whose last step was taken; a KL that counts and is not finite is refused."""
    rows = training.sums["rows"]
    nll, score = training.sums["nll"] / rows, training.sums["score"] / rows
    with torch.no_grad():
        kl_each = kl_by_weight(training.net.posterior, training.net.prior)
    kl = kl_each.sum().item()
    temperature = training.temperature_at(max(training.step - 1, 0))  # in force in the epoch's last step
    weight = temperature * (training.settings.kl_decay > 0)
    kl_by_layer = {k: v.item() for k, v in training.net.layout.sum_by_layer(kl_each).items()}
    kl_term = weight * kl / training.num_data if weight else 0.0
    counts = training.settings.kl_decay > 0 and training.settings.temperature != 0  # now, or once a ramp has begun
    if counts and not math.isfinite(kl):
        worst = training.net.layout.weight_at(int(kl_each.nan_to_num(math.inf).argmax()))
        raise NonFiniteError(f"step {training.step}: the KL is {kl}, most of it in {worst}. {ADVICE}")
    found = {"nll": nll, "score": score, "kl_term": kl_term, "temperature": temperature}
    return {
        "epoch": training.current_epoch,
        "step": training.step,
        "loss": nll + kl_term,
        "nll": nll,
        "kl": kl,
        **({"rmse": math.sqrt(score)} if training.train.task == "regression" else {"accuracy": score}),
        **training.likelihood.learnt(),
        "temperature": temperature,
        "lr": training.groups[0].lr,
        "seconds": round(training.seconds, 3),
        "groups": group_diagnostics(training.groups, training.gradient_norms),
        "snr": signal_to_noise(training.net),
        "kl_by_layer": kl_by_layer,
        "warnings": health_warnings(training.net, training.train, kl_by_layer, **found, num_data=training.num_data),
    }
