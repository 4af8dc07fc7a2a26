"""Prediction of real targets: a mixture of Gaussians over the weight samples, or one Gaussian of the same moments.

    sd^2 = aleatoric_sd^2 + epistemic_sd^2,    aleatoric_sd^2 = mean_s v_s^2,    epistemic_sd^2 = Var_s[m_s]

with m_s, v_s mean and noise sd under weight sample s. Standard deviations are kept, not variances: in the targets' own
units a variance may leave the range of single precision (1e19 squared is infinite, 1e-23 squared is 0).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from posterity.core.errors import UsageError
from posterity.likelihoods import mixture
from posterity.likelihoods.prediction import DEFAULT_LEVEL, Prediction


@dataclass(frozen=True, eq=False, repr=False)
class RealPrediction(Prediction):
    """`mean`, `aleatoric_sd`, `epistemic_sd` (n, k); `samples` (means) and `noise_sd` (S, n, k) by weight sample.

    Without samples the predictive is the Gaussian with these moments.
    """

    kind = "real targets"
    table = "regression"
    rescalable = True
    by_sample = ("samples", "noise_sd")

    aleatoric_sd: Tensor
    epistemic_sd: Tensor
    samples: Tensor | None = None
    noise_sd: Tensor | None = None

    def __post_init__(self) -> None:
        if (self.samples is None) != (self.noise_sd is None):
            raise UsageError("give samples and noise_sd both, or neither: a weight sample has a mean and a noise")

    @property
    def aleatoric(self) -> Tensor:
        """Mean variance of the noise (n, k)."""
        return self.aleatoric_sd.square()

    @property
    def epistemic(self) -> Tensor:
        """Variance of the means over the weights (n, k)."""
        return self.epistemic_sd.square()

    @property
    def sd(self) -> Tensor:
        """Standard deviation (n, k), from both sources."""
        return torch.hypot(self.aleatoric_sd, self.epistemic_sd)

    @property
    def entropy(self) -> Tensor:
        """Differential entropy (n, k) of each target by itself, in nats."""
        return mixture.entropy(*self._components())

    def log_prob(self, y: ArrayLike | Tensor) -> Tensor:
        """Log density of the predictive at `y` (n, k), jointly of the k targets: (n,)."""
        return mixture.log_density(*self._components(), self._targets(y))

    def expected_log_prob(self, y: ArrayLike | Tensor) -> Tensor:
        """Mean over the weights of the log density at `y` (n, k): (n,)."""
        targets = self._targets(y)
        if self.samples is not None and self.noise_sd is not None:
            return mixture.log_densities(self.samples, self.noise_sd, targets).mean(0)
        # E (y - m)^2 = (y - mean)^2 + epistemic_sd^2
        at_mean = mixture.log_densities(self.mean[None], self.aleatoric_sd[None], targets)[0]
        return at_mean - 0.5 * (self.epistemic_sd / self.aleatoric_sd).square().sum(-1)

    def quantile(self, q: float | Sequence[float]) -> Tensor:
        """The value (n, k) below which lies the share `q` of a target's predictive; (Q, n, k) for Q of them."""
        if isinstance(q, Sequence):
            return torch.stack([self.quantile(each) for each in q])
        if not 0 < q < 1:
            raise UsageError(f"a quantile's share must be between 0 and 1, such as 0.5 for the median, not {q}")
        return mixture.quantile(*self._components(), float(q))

    def interval(self, level: float = DEFAULT_LEVEL) -> tuple[Tensor, Tensor]:
        """The central interval, low and high ends (n, k), that holds the share `level` of a target's predictive."""
        if not 0 < level < 1:
            raise UsageError(f"an interval's level must be between 0 and 1, such as {DEFAULT_LEVEL}, not {level}")
        return self.quantile(0.5 - 0.5 * level), self.quantile(0.5 + 0.5 * level)

    def rescaled(self, mean: ArrayLike | Tensor, sd: ArrayLike | Tensor) -> RealPrediction:
        """The predictive of y = mean + sd z, where this is that of z: numbers, or one for each of the k targets.

        It has the more precise dtype of the three.
        """
        shift, scale = (self._factor(value) for value in (mean, sd))
        # What is being exported has no values yet; they were looked at before.
        if not torch.compiler.is_exporting() and not ((scale > 0) & scale.isfinite()).all():
            raise UsageError(f"the sd to rescale a prediction by must be positive and finite, not {scale.tolist()}")
        dtype = torch.promote_types(torch.promote_types(self.mean.dtype, shift.dtype), scale.dtype)
        shift, scale = shift.to(dtype), scale.to(dtype)
        return RealPrediction(
            mean=self.mean.to(dtype) * scale + shift,
            aleatoric_sd=self.aleatoric_sd.to(dtype) * scale,
            epistemic_sd=self.epistemic_sd.to(dtype) * scale,
            samples=None if self.samples is None else self.samples.to(dtype) * scale + shift,
            noise_sd=None if self.noise_sd is None else self.noise_sd.to(dtype) * scale,
        )

    def _factor(self, value: ArrayLike | Tensor) -> Tensor:
        """A number has the prediction's own dtype; tensors and arrays have theirs."""
        dtype = self.mean.dtype if isinstance(value, (int, float)) else None
        return torch.as_tensor(value, dtype=dtype, device=self.mean.device)

    def _components(self) -> tuple[Tensor, Tensor]:
        """Means and sds (S, n, k) of the mixture; of one Gaussian where there are no samples."""
        if self.samples is not None and self.noise_sd is not None:
            return self.samples, self.noise_sd
        return self.mean[None], self.sd[None]

    def _targets(self, y: ArrayLike | Tensor) -> Tensor:
        targets = torch.as_tensor(y, device=self.mean.device)
        if targets.shape != self.mean.shape:
            raise UsageError(f"targets must have shape {tuple(self.mean.shape)}, not {tuple(targets.shape)}")
        return targets

    def columns(self) -> dict[str, Tensor]:
        """Mean and standard deviations by source."""
        names = ("mean", "sd", "aleatoric_sd", "epistemic_sd", "aleatoric", "epistemic", "total")
        return {name: getattr(self, name) for name in names}

    def _summary(self) -> str:
        low, high = (value.item() for value in self.sd.aminmax())
        noise, spread = (t.double().square().mean().sqrt().item() for t in (self.aleatoric_sd, self.epistemic_sd))
        targets = f"{self.mean.shape[-1]} target{'' if self.mean.shape[-1] == 1 else 's'}"
        return (
            f"{targets}, sd {low:.3g} to {high:.3g}\n"
            f"  sd by source (root mean square): aleatoric {noise:.3g}, epistemic {spread:.3g}"
        )
