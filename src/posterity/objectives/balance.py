"""Balance: a temperature that follows the two terms of the ELBO as a training goes.

    T = C L^A (p / K)^B, within [LOWEST most, most],    A = 4/5, B = 3/10

    most  what the temperature starts at, by the sizes of data and network (objectives.tempering, `auto`)
    L   loss of the training data: the nll; of a regression the share of the targets' variance that is left, since the
        nll of a density has no zero
    K   the KL, p the number of data; both L and K are moving averages

A mean-field posterior pays for each weight, whether the data say much about it or not, so that at T = 1 the KL drowns
the data; how far T has to fall differs by task. Few data for a KL (p / K small) want less of it [1], and so do data
without noise (L small): what the network gets wrong is what a temperature protects it from. In bounds of the loss of
new data the best factor on the KL has a similar form, (L p / K)^(1/2) [2]. C, the exponents and LOWEST were fitted to
the best of a few temperatures on six tasks of classification (docs/first_results.md says which): clean data want less
temperature, but not less than LOWEST of what a network of that size begins with.

It cannot run away: where L falls as T^a and K grows as T^-k, T has on the right the exponent A a + B k, about a third.

[1] Huix, Majewski, Durmus, Moulines, Korba, Variational inference of overparameterized Bayesian neural networks, 2022.
[2] Thiemann, Igel, Wintenberger, Seldin, A strongly quasiconvex PAC-Bayesian bound, 2017.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

A, B, C = 4 / 5, 3 / 10, 0.1
LOWEST = 1 / 8
LEAST = 1e-6  # of a KL for each datum


def balanced(loss: float, kl: float, num_data: float) -> float:
    """The temperature of these terms, without bounds."""
    return float(C * max(loss, 0.0) ** A / max(kl / num_data, LEAST) ** B)


@dataclass
class Balance:
    """The temperature of a training, from LOWEST `most` to `most`, from moving averages of its loss and its KL.

    `factor` multiplies what they say.
    """

    num_data: float
    most: float
    factor: float = 1.0
    loss: float = math.nan
    kl: float = math.nan

    @property
    def temperature(self) -> float:
        """Now."""
        if math.isnan(self.loss):
            return self.most
        wanted = self.factor * balanced(self.loss, self.kl, self.num_data)
        return min(self.most, max(LOWEST * self.most, wanted))

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
