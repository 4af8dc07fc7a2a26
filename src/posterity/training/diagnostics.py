"""What an epoch's record says of the weights' health, beside the losses.

    gradient_norm    Euclidean norm of a group's gradient in the epoch's last step
    effective_rate   quantiles of what multiplies the average gradient in that step (optim.rates)
    tuning           what an optimiser that tunes itself has measured and chosen (YellowFin: h_min, h_max, C, D, mu, lr)
    snr              quantiles of |mean| / sd over the weights
    kl_by_layer      in nats

Two states are worth a warning: a layer whose posterior has become its prior (KL per weight below COLLAPSED:
it has learnt nothing), and a KL that dwarfs the nll while the network does no better than one constant answer for all
inputs (it is pulled to the prior, whatever the data). Of that answer, the best on the training data,
    classification   the nll is the entropy of the labels' frequencies
    regression       the mean square error is the targets' variance
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase

from posterity.bayesian import BayesianModule
from posterity.core.errors import NonFiniteError
from posterity.data import Dataset
from posterity.likelihoods import Likelihood
from posterity.objectives import Loss
from posterity.optim import OPTIMIZERS, effective_rates
from posterity.training.groups import ParameterGroup
from posterity.training.settings import Settings

ADVICE = "Try a lower lr (a tenth), clip=1.0, a lower initial rho, or look for extreme values in the data."
QUANTILES = (0.1, 0.5, 0.9)
COLLAPSED = 1e-3  # nats for each weight
DWARFS = 10.0  # times the nll
FAR = 10.0  # from 1, for inputs and the spread of targets
NORMS = (_NormBase, nn.LayerNorm, nn.GroupNorm)  # networks that begin with one scale their inputs themselves
LOOKED_AT = 1000  # rows whose inputs are
SLOW = 6.0  # times lower than the default rate
NO_BETTER = 0.99  # times the constant's
AT_MOST = 2**16  # weights that quantiles are taken over


def group_diagnostics(groups: list[ParameterGroup], gradient_norms: dict[str, float]) -> dict[str, Any]:
    """Rate, gradient norm and effective rates by group."""
    return {
        group.name: {"lr": group.lr, "gradient_norm": gradient_norms[group.name], **_effective(group), **_tuning(group)}
        for group in groups
    }


def signal_to_noise(net: BayesianModule) -> list[float]:
    """Quantiles of |mean| / sd; empty for a posterior without spread."""
    if not net.posterior.random:
        return []
    return _quantiles(net.posterior.mean.detach().abs() / net.posterior.sd.detach())


def constant_score(data: Dataset) -> float:
    """What the best constant answer has, see the header: nll, or mean square error."""
    if data.task == "regression":
        return data.y.var(0, correction=0).mean().item()
    shares = data.y.long().flatten().bincount() / data.y.numel()
    return -torch.xlogy(shares, shares).sum().item()


def far_data(train: Dataset, net: BayesianModule, likelihood: Likelihood | None) -> list[str]:
    """Warnings of inputs that are far larger than standard, and of real targets that are far from it."""
    found = []
    first = next(module for module in net.model.modules() if not list(module.children()))
    if isinstance(train.x, Tensor) and train.x.is_floating_point() and not isinstance(first, NORMS):
        largest = train.x[:LOOKED_AT].flatten(1).float().square().mean(0).max().sqrt().item()
        if largest > FAR:
            found.append(
                f"inputs are as large as {largest:.3g} (a column's root mean square), for which weights of a usual "
                "size are far too large: standardise them; of data in memory fit(..., standardise=True) does, and "
                "predicts from raw ones"
            )
    if train.task != "regression" or likelihood is None or not likelihood.of_reals:
        return found
    spread, centre = train.y.std(0, correction=0).mean().item(), train.y.mean(0).abs().max().item()
    if (spread == 0 or 1 / FAR < spread < FAR) and centre < FAR:  # a constant has nothing to be standardised by
        return found
    return [
        *found,
        f"the targets have a mean of {centre:.3g} and a spread of {spread:.3g}, which weights of a usual size do not "
        "reach: fit(..., standardise=True) standardises inputs and targets and predicts in their units",
    ]


def foreign_rate(settings: Settings, optimizer: str) -> list[str]:
    """A warning of Adam's usual rate, or a lower one, for an `optimizer` of matrices that was not asked for."""
    if settings.optimizer is not None or settings.lr is None:
        return []
    recipe = OPTIMIZERS[optimizer]
    if not recipe.shaped or recipe.lr is None or settings.lr * SLOW > recipe.lr:
        return []
    return [
        f"lr {settings.lr:g} is {settings.lr / recipe.lr:.2g} times the default of '{optimizer}', which is taken where "
        "no optimizer is named and whose rates are not Adam's: leave lr out, or say which optimizer it is for"
    ]


def health_warnings(
    net: BayesianModule,
    train: Dataset,
    kl_by_layer: dict[str, float],
    *,
    nll: float,
    score: float,
    kl_term: float,
    temperature: float,
    num_data: int,
) -> list[str]:
    """What a person should look at; `score` is the accuracy, or the mean square error."""
    found = far_data(train, net, net.likelihood)
    if not net.posterior.random:
        return found
    sizes: dict[str, int] = {}
    for entry in net.layout.entries:
        sizes[entry.layer] = sizes.get(entry.layer, 0) + entry.size
    found += [
        f"layer {layer}: the posterior has collapsed to the prior ({kl:.2g} nats in {sizes[layer]} weights)"
        for layer, kl in kl_by_layer.items()
        if kl < COLLAPSED * sizes[layer]
    ]
    reached = score if train.task == "regression" else nll
    if kl_term > DWARFS * abs(nll) and reached > NO_BETTER * constant_score(train):
        by_rule = " or auto" if num_data < temperature * net.num_weights else ""
        found.append(
            f"the KL's term ({kl_term:.3g}) dwarfs the nll ({nll:.3g}), which is no better than a constant guess's: "
            f"try temperature {min(0.1, temperature / 10):.3g}{by_rule}"
        )
    return found


def _effective(group: ParameterGroup) -> dict[str, Any]:
    found = [(p, effective_rates(group.optimizer, p)) for p in group.parameters]
    known = [rates.to(p.device).expand(p.shape).flatten() for p, rates in found if rates is not None]
    return {"effective_rate": _quantiles(torch.cat(known))} if known else {}


def _tuning(group: ParameterGroup) -> dict[str, Any]:
    """With the first of the groups that share it."""
    measure = getattr(group.optimizer, "measurements", None)
    if group.index or measure is None:
        return {}
    return {"tuning": {name: float(f"{value:.6g}") for name, value in measure().items()}}


def _quantiles(values: Tensor) -> list[float]:
    some = values[:: max(1, values.numel() // AT_MOST)].float()
    points = torch.tensor(QUANTILES, device=some.device)
    return [float(f"{q:.6g}") for q in torch.quantile(some, points).tolist()]


def non_finite(net: BayesianModule, loss: Loss, step: int) -> NonFiniteError:
    """An error that says where it began and what to try."""
    if not math.isfinite(loss.nll.item()):
        place = f"the loss is {loss.nll.item()}"
    else:
        # The norm squares the gradient, and so overflows before it.
        place = "the gradient is too large"
        for name, deterministic in net.named_parameters():
            if deterministic.grad is not None and not deterministic.grad.isfinite().all():
                place = f"the gradient of {name} is not finite"
        for parameter in net.posterior.parameters():
            if parameter.grad is not None and not parameter.grad.isfinite().all():
                first = net.posterior.weight_index(parameter, int((~parameter.grad.isfinite()).nonzero()[0, -1]))
                place = f"the gradient of {net.layout.weight_at(first)} is not finite"
                break
    worst = int(net.posterior.mean.detach().abs().nan_to_num(math.inf).argmax())
    size = net.posterior.mean.detach().abs()[worst].item()
    return NonFiniteError(
        f"step {step}: {place} (largest weight: {size:.3g}, in {net.layout.weight_at(worst)}). The step was not "
        "taken. " + ADVICE
    )
