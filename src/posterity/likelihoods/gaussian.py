"""Gaussian observations with fixed, learnt or input-dependent noise.

    log P(y | z) = -sum_j [ (y_j - z_j)^2 / (2 s_j^2) + log s_j + log(2 pi) / 2 ]

    fixed    s is given
    learnt   s = softplus(rho), one for each target
    input    the network gives 2k outputs: k means, then k numbers r, s = unit (softplus(r) + MIN_SD); a training sets
             the unit, 1 before, to the targets' spread, so that s starts there

Variance of the predictive = aleatoric mean_s s^2 + epistemic Var_s[z].

For any q the ELBO is best at  s^2 = E_q mean_n (y - z)^2.  `fit` moves a learnt noise there by averaging the batches,
    s^2 <- s^2 + share (mean over the batch and the weight samples of (y - z)^2 - s^2)
instead of by an optimiser, whose rate would have to fit both the noise and the weights: it starts from the first
residuals, whatever the targets' scale, and follows them. In a loop of one's own `rho` is a parameter like any other.
Limits: share = 1 is the batch's own best s; of targets that are met exactly it stays LEAST of their spread.

At its end a training `settle`s learnt and input-dependent noise: its own residuals r are smaller than those of new
data, since the weights follow them. How far is the leverage of a datum (training.leverage), on average l. Then
    s^2 <- mean r^2 / (1 - l)^2 - mean_n Var_q[z_n]    (in units of s_n for input noise)
The first term is generalised cross-validation [1]: what the square residual of new data will be. The second is what the
predictive adds by itself. There is a pole at l = 1: MOST_LEVERAGE is corrected for at the most.
Limits: many data for each weight, l -> 0: the residuals themselves.

[1] Golub, Heath and Wahba, Generalized cross-validation as a method for choosing a good ridge parameter, 1979.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from posterity.core.errors import UsageError
from posterity.core.precision import wide, wide_type
from posterity.core.scale import rho_of
from posterity.likelihoods.likelihood import Likelihood
from posterity.likelihoods.mixture import HALF_LOG_2PI
from posterity.likelihoods.prediction import Prediction
from posterity.likelihoods.real import RealPrediction

LEAST = 1e-3  # of the targets' spread: a network that meets all targets would drive s, and with it the loss, to -inf
MOST_LEVERAGE = 0.9  # that residuals are corrected for: by ten times, at the most
MIN_SD = 1e-3  # keeps input-dependent noise from collapsing onto single training points


class GaussianNoise(Likelihood):
    """Targets (n, k) with Gaussian noise: a number (its sd), "learnt" or "input"."""

    kind = "gaussian"
    task = "regression"
    of_reals = True
    unit: Tensor

    def __init__(self, noise: float | str = "learnt", *, num_targets: int = 1) -> None:
        super().__init__()
        if isinstance(noise, str) and noise not in ("learnt", "input"):
            raise UsageError(f"noise is a positive number, 'learnt' or 'input', not '{noise}'")
        if not isinstance(noise, str) and not (math.isfinite(noise) and noise > 0):
            raise UsageError(f"the noise's sd must be positive, not {noise}")
        self.noise = noise
        self.num_targets = num_targets
        if noise == "learnt":
            self.rho = nn.Parameter(torch.zeros(num_targets))
        if noise == "input":
            self.register_buffer("unit", torch.ones(num_targets))

    def moments(self, outputs: Tensor) -> tuple[Tensor, Tensor]:
        """Means and noise sds (S, n, k) that `outputs` stand for."""
        if self.noise == "input":
            if outputs.shape[-1] % 2:
                raise UsageError(f"input-dependent noise takes two outputs a target, not {outputs.shape[-1]} outputs")
            mean, raw = outputs.chunk(2, dim=-1)
            return mean, self.unit * (F.softplus(raw) + MIN_SD)
        if self.noise == "learnt":
            return outputs, F.softplus(self.rho).expand_as(outputs)
        return outputs, outputs.new_tensor(self.noise).expand_as(outputs)

    def log_prob(self, outputs: Tensor, y: Tensor) -> Tensor:
        """(S, n) for outputs (S, n, k or 2k) and targets (n, k)."""
        mean, sd = self.moments(outputs)
        if mean.shape[1:] != y.shape:
            raise UsageError(f"Gaussian targets must have shape {tuple(mean.shape[1:])}, not {tuple(y.shape)}")
        return -(0.5 * ((y - mean) / sd).square() + sd.log() + HALF_LOG_2PI).sum(-1)

    def predict(self, outputs: Tensor) -> RealPrediction:
        """Mean and standard deviations by source."""
        mean, sd = self.moments(outputs)
        # Squares are summed in double precision, where they have room; `std` does so by itself.
        noise = torch.linalg.vector_norm(sd, dim=0, dtype=wide_type(sd.device)).div_(math.sqrt(len(sd))).to(sd.dtype)
        return RealPrediction(mean.mean(0), noise, mean.std(0, correction=0), mean, sd.contiguous())

    def trained(self) -> list[nn.Parameter]:
        """None: a learnt noise has a closed form."""
        return []

    @torch.no_grad()
    def begin(self, y: Tensor) -> None:
        """Input-dependent noise starts at the spread of the targets; one that was trained stays as it is."""
        spread = y.std(0, correction=0)
        if self.noise == "input" and bool((self.unit == 1).all() and (spread > 0).all()):
            self.unit.copy_(spread)

    @torch.no_grad()
    def adapt(self, outputs: Tensor, y: Tensor, share: float, weight: Tensor | None = None) -> None:
        """A learnt noise towards these residuals, see the header."""
        if self.noise != "learnt":
            return
        variance = F.softplus(wide(self.rho)).square()
        best = mean_over_rows(wide(y - outputs).square().mean(0), weight)
        least = (LEAST * wide(y).std(0, correction=0)).clamp_min(torch.finfo(self.rho.dtype).tiny)
        sd = torch.lerp(variance, best, share).sqrt().maximum(least)
        self.rho.copy_(rho_of(sd))

    @property
    def settles(self) -> bool:
        """Unless the noise was given."""
        return isinstance(self.noise, str)

    @torch.no_grad()
    def settle(self, prediction: Prediction, y: Tensor, leverage: Tensor, weight: Tensor | None = None) -> None:
        """The noise of new data, from a `prediction` at the training's own (n, k), see the header."""
        assert isinstance(prediction, RealPrediction)
        if not self.settles or prediction.samples is None or len(prediction.samples) < 2:
            return
        noise = wide(prediction.aleatoric_sd)
        spread = mean_over_rows(wide(prediction.samples).var(0) / noise.square(), weight)
        residuals = mean_over_rows((wide(y - prediction.mean) / noise).square(), weight)
        left_out = residuals / (1 - leverage.clamp_max(MOST_LEVERAGE)).square()
        factor = (left_out - spread).clamp_min(LEAST**2).sqrt()
        if self.noise == "input":
            self.unit.mul_(factor)
        else:
            self.rho.copy_(rho_of(F.softplus(wide(self.rho)) * factor))

    @torch.no_grad()
    def pooled(self, others: Sequence[Likelihood]) -> Likelihood:
        """Of learnt noises s_k that of s^2 = mean_k s_k^2: the predictive's mean and variance are the mixture's.

        Of input-dependent ones the units are pooled so.
        """
        made = copy.deepcopy(self)
        if self.noise == "input":
            made.unit.copy_(torch.stack([one.unit for one in (self, *others)]).square().mean(0).sqrt())  # type: ignore[misc]
        if self.noise == "learnt":
            rhos = torch.stack([one.rho for one in (self, *others)])  # type: ignore[misc]
            if (rhos != self.rho).any():  # else without rounding
                made.rho.copy_(rho_of(F.softplus(wide(rhos)).square().mean(0).sqrt()))
        return made

    def learnt(self) -> dict[str, Any]:
        """The noise's sd: a number, or one for each of several targets."""
        if self.noise != "learnt":
            return {}
        sds = F.softplus(self.rho.detach()).tolist()
        return {"noise": sds[0] if len(sds) == 1 else sds}

    def num_outputs(self, num_targets: int) -> int:
        """A mean for each target, and with input-dependent noise a scale for each."""
        return 2 * num_targets if self.noise == "input" else num_targets

    def options(self) -> dict[str, Any]:
        """The noise and the number of targets."""
        return {"noise": self.noise, "num_targets": self.num_targets}


def mean_over_rows(values: Tensor, weight: Tensor | None) -> Tensor:
    """The mean of `values` (n, k) over its rows, by `weight` (n,) unless there is none, or none that counts."""
    if weight is None or not weight.any():
        return values.mean(0)
    counts = wide(weight)
    return torch.matmul(counts, values) / counts.sum()
