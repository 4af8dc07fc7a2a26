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

At its end a training `settle`s learnt and input-dependent noise: its own residuals are smaller than those of new data,
since the weights follow them, those of new data have heavier tails than a Gaussian, noise often grows with what is
predicted, and a posterior at a temperature below 1 is narrower than the data would have it. With the leverage h of each
datum (training.leverage), the outputs z_s of the weight samples and their mean m, the residuals of a datum that was
left out are, under the samples' mixture stretched by k,
    e_s = (y - m) / (1 - h) - k (z_s - m)                                                                       [1]
and k >= 1 and Student-t noise t_v of scale c are fitted to them (likelihoods.student_fit), each target by itself, in
units of s for input noise, whose network says how it varies. Of learnt noise c varies with the output, by the slope b:
    s(z) = s exp(b (z' - centre))
with z' = z in the range from low to high of the training's own outputs. Outside of it noise must not fall: there z' is
as far from the nearer end, but on the range's side, where noise falls outwards; else z' is that end, as it is beyond
the whole range. The centre is such that s is the root mean square of the training's own data's.
s is the noise's sd, c sqrt(v / (v - 2)), and `df` is v:
    log P(y | z) = sum_j log t_v((y_j - z_j) / c_j) / c_j
while a prediction is the mixture of  m + k (z_s - m)  with the noise s(z_s).
What is maximised, the mean log density of data that were left out, is cross-validation without training again.
There is a pole at h = 1: MOST_LEVERAGE is corrected for at the most.
Limits: many data for each weight, h -> 0: the residuals themselves; Gaussian residuals: v = inf, and s is their rms, of
which the spread of z_s takes its part. Before: v = inf, b = 0, k = 1.

[1] Cook, Weisberg, Residuals and influence in regression, 1982.
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
from posterity.likelihoods.student_fit import student_fit
from posterity.likelihoods.student_prediction import StudentPrediction, log_student

LEAST = 1e-3  # of the targets' spread: a network that meets all targets would drive s, and with it the loss, to -inf
MOST_LEVERAGE = 0.9  # that residuals are corrected for: by ten times, at the most
MIN_SD = 1e-3  # keeps input-dependent noise from collapsing onto single training points


class GaussianNoise(Likelihood):
    """Targets (n, k) with Gaussian noise: a number (its sd), "learnt" or "input".

    Once a training has ended, noise that was learnt is Student-t with `df` (k,) degrees of freedom, and weight samples
    are stretched by `stretch` (k,); `trend` (4, k) has slope, centre, low and high of the noise over the output: see
    the header.
    """

    kind = "gaussian"
    task = "regression"
    of_reals = True
    unit: Tensor
    df: Tensor
    trend: Tensor
    stretch: Tensor

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
        self._settled = False
        if self.settles:
            for name, value in _unsettled(num_targets).items():
                self.register_buffer(name, value)

    def moments(self, outputs: Tensor) -> tuple[Tensor, Tensor]:
        """Means and noise sds (S, n, k) that `outputs` stand for."""
        if self.noise == "input":
            if outputs.shape[-1] % 2:
                raise UsageError(f"input-dependent noise takes two outputs a target, not {outputs.shape[-1]} outputs")
            mean, raw = outputs.chunk(2, dim=-1)
            return mean, self.unit * (F.softplus(raw) + MIN_SD)
        if self.noise == "learnt":
            sd = F.softplus(self.rho).expand_as(outputs)
            if not self.settled:
                return outputs, sd
            slope, centre, low, high = self.trend
            inside = outputs.clamp(low, high)
            seen = (inside + slope.sign() * (outputs - inside).abs()).clamp(low, high)
            return outputs, sd * (slope * (seen - centre)).exp()
        return outputs, outputs.new_tensor(self.noise).expand_as(outputs)

    def log_prob(self, outputs: Tensor, y: Tensor) -> Tensor:
        """(S, n) for outputs (S, n, k or 2k) and targets (n, k)."""
        mean, sd = self.moments(outputs)
        if mean.shape[1:] != y.shape:
            raise UsageError(f"Gaussian targets must have shape {tuple(mean.shape[1:])}, not {tuple(y.shape)}")
        if self.settled:
            scale = sd * (1 - 2 / self.df).sqrt()
            return (log_student((y - mean) / scale, self.df) - scale.log()).sum(-1)
        return -(0.5 * ((y - mean) / sd).square() + sd.log() + HALF_LOG_2PI).sum(-1)

    def predict(self, outputs: Tensor) -> RealPrediction:
        """Mean and standard deviations by source."""
        mean, sd = self.moments(outputs)
        if self.settled:
            mean = torch.lerp(mean.mean(0, keepdim=True), mean, self.stretch)
        # Squares are summed in double precision, where they have room; `std` does so by itself.
        noise = torch.linalg.vector_norm(sd, dim=0, dtype=wide_type(sd.device)).div_(math.sqrt(len(sd))).to(sd.dtype)
        parts = mean.mean(0), noise, mean.std(0, correction=0), mean, sd.contiguous()
        heavy = self.settled and not torch.compiler.is_exporting() and bool(self.df.isfinite().any())
        return StudentPrediction(*parts, self.df.expand_as(noise)) if heavy else RealPrediction(*parts)

    def trained(self) -> list[nn.Parameter]:
        """None: a learnt noise has a closed form."""
        return []

    @torch.no_grad()
    def begin(self, y: Tensor) -> None:
        """Input-dependent noise starts at the spread of the targets; one that was trained stays, but is Gaussian."""
        self._unsettle()
        spread = y.std(0, correction=0)
        if self.noise == "input" and bool((self.unit == 1).all() and (spread > 0).all()):
            self.unit.copy_(spread)

    @torch.no_grad()
    def adapt(
        self, outputs: Tensor, y: Tensor, share: float, weight: Tensor | None = None, *, least: Tensor | None = None
    ) -> None:
        """A learnt noise towards these residuals, see the header."""
        if self.noise != "learnt":
            return
        variance = F.softplus(wide(self.rho)).square()
        best = mean_over_rows(wide(y - outputs).square().mean(0), weight)
        lowest = (LEAST * wide(y).std(0, correction=0)).clamp_min(torch.finfo(self.rho.dtype).tiny)
        sd = torch.lerp(variance, best, share).sqrt().maximum(lowest)
        if least is not None:
            sd = sd.maximum(least.to(sd))
        self.rho.copy_(rho_of(sd))
        self._unsettle()

    def _unsettle(self) -> None:
        if self._settled:
            for name, value in _unsettled(self.num_targets).items():
                getattr(self, name).copy_(value)
            self._settled = False

    @property
    def settled(self) -> bool:
        """Whether a training has ended whose noise is other than Gaussian and the same for all inputs."""
        # What is being exported has no values yet; what `settle` does is nothing where it found nothing.
        return self._settled or (self.settles and torch.compiler.is_exporting())

    def _look(self) -> None:
        """Remember whether it is settled: a step has no time to look."""
        same = self.df.isinf() & (self.stretch == 1) & (self.trend[0] == 0)
        self._settled = not bool(same.all())

    @property
    def settles(self) -> bool:
        """Unless the noise was given."""
        return isinstance(self.noise, str)

    @torch.no_grad()
    def settle(
        self, prediction: Prediction, y: Tensor, leverages: Tensor, weight: Tensor | None = None
    ) -> float | None:
        """The noise of new data, from a `prediction` at the training's own (n, k), see the header.

        Given back is the mean log density of these data, each as if it had been left out, summed over the targets.
        """
        assert isinstance(prediction, RealPrediction)
        if not self.settles or prediction.samples is None or len(prediction.samples) < 2:
            return None
        assert prediction.noise_sd is not None
        outputs, noise = wide(prediction.samples), wide(prediction.noise_sd)
        mean = outputs.mean(0)
        left_out = (wide(y) - mean) / (1 - wide(leverages).clamp_max(MOST_LEVERAGE))
        least = (LEAST * wide(y).std(0, correction=0) / noise.mean((0, 1))).clamp_min(LEAST**2).tolist()
        low, high, middle = outputs.amin((0, 1)), outputs.amax((0, 1)), mean_over_rows(mean, weight)
        spread = mean_over_rows((mean - middle).square(), weight).sqrt()
        trend = (outputs - middle) / torch.where(spread > 0, spread, 1.0)
        trends = trend.unbind(-1) if self.noise == "learnt" else [None] * len(least)
        columns = zip(left_out.T, (outputs - mean).unbind(-1), noise.unbind(-1), least, trends, strict=True)
        fits = [student_fit(*column[:4], weight=weight, trend=column[4]) for column in columns]
        slope = mean.new_tensor([fit.slope for fit in fits])
        level = mean_over_rows((2 * slope * trend).exp().mean(0), weight).sqrt()
        factor = mean.new_tensor([fit.scale / math.sqrt(1 - 2 / fit.df) for fit in fits])
        if self.noise == "input":
            self.unit.mul_(factor)
        else:
            self.rho.copy_(rho_of(F.softplus(wide(self.rho)) * factor * level))
            slope = slope / torch.where(spread > 0, spread, 1.0)
            centre = middle + torch.where(slope == 0, 0.0, level.log() / slope)
            self.trend.copy_(torch.stack([slope, centre, low, high]))
        self.df.copy_(mean.new_tensor([fit.df for fit in fits]))
        self.stretch.copy_(mean.new_tensor([fit.stretch for fit in fits]))
        self._look()
        return sum(fit.log_density for fit in fits)

    @torch.no_grad()
    def pooled(self, others: Sequence[Likelihood]) -> Likelihood:
        """Of learnt noises s_k that of s^2 = mean_k s_k^2: the predictive's mean and variance are the mixture's.

        Of input-dependent ones the units are pooled so. 1 / v = mean_k 1 / v_k, and so are slopes and centres; members
        differ from each other, so that their samples are not stretched.
        """
        made = copy.deepcopy(self)
        if self.settles:
            dfs = torch.stack([one.df for one in (self, *others)])  # type: ignore[misc]
            if (dfs != self.df).any():  # else without rounding
                made.df.copy_((1 / wide(dfs)).mean(0).reciprocal())
            trends = torch.stack([one.trend for one in (self, *others)])  # type: ignore[misc]
            if (trends != self.trend).any():
                made.trend[:2] = wide(trends[:, :2]).mean(0)
                made.trend[2:] = torch.stack([trends[:, 2].amin(0), trends[:, 3].amax(0)])
            if others:
                made.stretch.fill_(1.0)
            made._look()
        if self.noise == "input":
            made.unit.copy_(torch.stack([one.unit for one in (self, *others)]).square().mean(0).sqrt())  # type: ignore[misc]
        if self.noise == "learnt":
            rhos = torch.stack([one.rho for one in (self, *others)])  # type: ignore[misc]
            if (rhos != self.rho).any():
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

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *others: Any) -> None:
        if self.settles:  # files from before have none
            for name, value in _unsettled(self.num_targets).items():
                state_dict.setdefault(f"{prefix}{name}", value)
        super()._load_from_state_dict(state_dict, prefix, *others)
        if self.settles:
            self._look()

    def options(self) -> dict[str, Any]:
        """The noise and the number of targets."""
        return {"noise": self.noise, "num_targets": self.num_targets}


def _unsettled(num_targets: int) -> dict[str, Tensor]:
    """What `settle` finds, where there is nothing to find."""
    edge = torch.full((num_targets,), math.inf)
    trend = torch.stack([torch.zeros(num_targets), torch.zeros(num_targets), -edge, edge])
    return {"df": edge, "trend": trend, "stretch": torch.ones(num_targets)}


def mean_over_rows(values: Tensor, weight: Tensor | None) -> Tensor:
    """The mean of `values` (n, k) over its rows, by `weight` (n,) unless there is none, or none that counts."""
    if weight is None or not weight.any():
        return values.mean(0)
    counts = wide(weight)
    return torch.matmul(counts, values) / counts.sum()
