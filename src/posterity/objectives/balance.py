"""Balance: a temperature that follows the two terms of the ELBO as a training goes.

    T = min(1, u / RAMP) C L (p / K)^B, within [LOWEST, HIGHEST] auto,    B = 1/10

    auto  the constant temperature by the sizes of data and network (objectives.tempering)
    L     loss of the training data: the nll; of a regression the share of the targets' variance that is left, since the
          nll of a density has no zero
    K     the KL, p the number of data; both L and K are moving averages
    u     the share of the training that is done, or of a warm-up that was asked for

A mean-field posterior pays for each weight, whether the data say much about it or not, so that at T = 1 the KL drowns
the data; how far T has to fall differs by task. Few data for a KL (p / K small) want less of it [1], and so do data
without noise (L small): what the network gets wrong is what a temperature protects it from. In bounds of the loss of
new data the best factor on the KL has a similar form, (L p / K)^(1/2) [2]. A network that begins cold has all of its
units at work before the KL makes it give some up, and can then end warmer. The constants were fitted to the best of a
few temperatures on six tasks of classification (docs/first_results.md says which).

It cannot run away: where L falls as T^a and K grows as T^-k, T has on the right the exponent a + B k, about a third.

[1] Huix, Majewski, Durmus, Moulines, Korba, Variational inference of overparameterized Bayesian neural networks, 2022.
[2] Thiemann, Igel, Wintenberger, Seldin, A strongly quasiconvex PAC-Bayesian bound, 2017.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

B, C = 1 / 10, 0.108
LOWEST, HIGHEST = 1 / 3, 3 / 2  # of the constant temperature
RAMP = 0.5  # share of the training
LEAST = 1e-6  # of a KL for each datum


def balanced(loss: float, kl: float, num_data: float) -> float:
    """The temperature of these terms, without ramp and bounds."""
    return float(C * max(loss, 0.0) / max(kl / num_data, LEAST) ** B)


@dataclass
class Balance:
    """The temperature that a training's ramp leads to, from moving averages of its loss and its KL.

    `constant` is what its bounds are relative to; `factor` multiplies what the averages say.
    """

    num_data: float
    constant: float
    factor: float = 1.0
    loss: float = math.nan
    kl: float = math.nan

    @property
    def temperature(self) -> float:
        """Now; before there are averages the highest."""
        if math.isnan(self.loss):
            return HIGHEST * self.constant
        wanted = self.factor * balanced(self.loss, self.kl, self.num_data)
        return min(HIGHEST * self.constant, max(LOWEST * self.constant, wanted))

    def observe(self, loss: float, kl: float, share: float) -> None:
        """Move the averages by `share` towards a step's numbers; those that are not finite are passed over."""
        if not (math.isfinite(loss) and math.isfinite(kl)):
            return
        first = math.isnan(self.loss)
        self.loss = loss if first else self.loss + share * (loss - self.loss)
        self.kl = kl if first else self.kl + share * (kl - self.kl)

    def state(self) -> dict[str, float]:
        """The averages; nothing before there are any."""
        return {} if math.isnan(self.loss) else {"loss": self.loss, "kl": self.kl}

    def restore(self, state: dict[str, float]) -> None:
        """The inverse of `state`."""
        self.loss, self.kl = state.get("loss", math.nan), state.get("kl", math.nan)
