"""What a posterior and a prior have together: KL(q || prior), and draws that carry its gradient.

KL summed over all weights, in nats:
    Gaussian q and prior, z = (mean - prior_mean) / prior_sd, r = sd / prior_sd:
        kl = sum_i [ (r_i^2 + z_i^2 - 1) / 2 - log r_i ]
    Gaussian q of low rank, sd_i^2 its variances, s_i without its deviations' part, M = I + A A^T (posteriors.low_rank):
        kl = sum_i [ (r_i^2 + z_i^2 - 1) / 2 - log(s_i / prior_sd_i) ] - (log det M) / 2
    where a weight's share of the last term makes its share of the KL that of its marginal, plus its share, which is not
    negative, of what the weights tell of each other (their total correlation).
    Gaussian q, any prior:  kl = -entropy(q) - E_q log prior, the last by `prior.expected_log_density`: in closed form
        for Laplace priors and L2, L1 penalties, otherwise by quadrature (priors.expectations), not by sampling. It
        needs independent weights; of a low-rank q only each weight's marginal, if the prior has independent weights
    Point q: -log prior(mean), the KL up to a constant that no parameter changes; a bag of points: the mean of it.

The generic way is what the posterior itself knows (`Posterior.kl`), differentiated by autograd. Pairs that have a
closed form or a hand-written gradient of their own stand in PAIRS; a pair of subclasses has their classes' way.

Limits: q = prior gives 0; sd -> 0 gives +inf logarithmically.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

from torch import Tensor

from posterity.bayesian import BayesianModule
from posterity.objectives.draw import draw_mean_field, draw_point, mean_field_moments
from posterity.objectives.draw_low_rank import draw_low_rank
from posterity.posteriors import IndependentGaussian, LowRank, MeanField, Point, Posterior
from posterity.priors import FlatGaussian, Prior

Views = dict[str, Tensor]
Draw = tuple[Views, Tensor | None]
Moments = tuple[Sequence[Tensor], Sequence[Tensor], Tensor]


class Pair:
    """The generic way."""

    def kl_by_weight(self, posterior: Any, prior: Any) -> Tensor:
        """Each weight's share (N,) of the KL."""
        shares: Tensor = posterior.kl_by_weight(prior)
        return shares

    def kl(self, posterior: Any, prior: Any) -> Tensor:
        """KL(posterior || prior)."""
        value: Tensor = posterior.kl(prior)
        return value

    def draw(self, net: BayesianModule, samples: int, *, counts: bool = True) -> Draw:
        """Weights by name, and their KL, which a pair may leave out where it does not count."""
        kl = self.kl(net.posterior, net.prior)
        return net.layout.views(net.draw(None if samples == 1 else samples)), kl

    def moments(self, net: BayesianModule) -> Moments:
        """Means and standard deviations by weight, and their KL."""
        kl, sizes = self.kl(net.posterior, net.prior), net.layout.sizes
        return net.posterior.mean.split(sizes), net.posterior.sd.split(sizes), kl


class Gaussians(Pair):
    """Independent Gaussians, both."""

    def kl_by_weight(self, posterior: IndependentGaussian, prior: FlatGaussian) -> Tensor:
        """In closed form."""
        shift = (posterior.mean - prior.mean) / prior.sd
        ratio = posterior.sd / prior.sd
        return 0.5 * (ratio.square() + shift.square() - 1) - ratio.log()

    def kl(self, posterior: IndependentGaussian, prior: FlatGaussian) -> Tensor:
        """In closed form."""
        return self.kl_by_weight(posterior, prior).sum()


class MeanFieldGaussian(Gaussians):
    """The pair that most trainings have: gradients written by hand (objectives.draw)."""

    def draw(self, net: BayesianModule, samples: int, *, counts: bool = True) -> Draw:
        """See objectives.draw."""
        return draw_mean_field(net, samples)

    def moments(self, net: BayesianModule) -> Moments:
        """See objectives.draw."""
        return mean_field_moments(net)


class LowRankGaussian(Pair):
    """Gradients written by hand (objectives.draw_low_rank)."""

    def kl_by_weight(self, posterior: LowRank, prior: FlatGaussian) -> Tensor:
        """In closed form; the gradient of the deviations' term is in `kl` alone."""
        return self._marginal(posterior, prior) - posterior.half_log_det_by_weight()

    def kl(self, posterior: LowRank, prior: FlatGaussian) -> Tensor:
        """In closed form."""
        return self._marginal(posterior, prior).sum() - posterior.half_log_det()

    def draw(self, net: BayesianModule, samples: int, *, counts: bool = True) -> Draw:
        """See objectives.draw_low_rank."""
        return draw_low_rank(net, samples)

    def _marginal(self, posterior: LowRank, prior: FlatGaussian) -> Tensor:
        square = (posterior.mean - prior.mean).square() + posterior.variance()
        return 0.5 * (square * prior.precision - 1) - (posterior.own_sd / prior.sd).log()


class PointPrior(Pair):
    """A point and any prior (objectives.draw)."""

    def draw(self, net: BayesianModule, samples: int, *, counts: bool = True) -> Draw:
        """See objectives.draw."""
        return draw_point(net, samples, counts=counts)


GENERIC = Pair()
PAIRS: dict[tuple[type, type], Pair] = {
    (MeanField, FlatGaussian): MeanFieldGaussian(),
    (LowRank, FlatGaussian): LowRankGaussian(),
    (IndependentGaussian, FlatGaussian): Gaussians(),
    (Point, Prior): PointPrior(),
}


def pair_of(posterior: Posterior, prior: Prior) -> Pair:
    """The way of these two: their own, that of the nearest classes they derive from, or the generic one."""
    found = PAIRS.get((type(posterior), type(prior)))
    if found is not None:
        return found
    if not isinstance(posterior, Posterior):
        raise TypeError(f"a KL is from a posterior, such as net.posterior, not from a {type(posterior).__name__}")
    ancestors = product(type(posterior).__mro__, type(prior).__mro__)
    return next((PAIRS[kinds] for kinds in ancestors if kinds in PAIRS), GENERIC)


def kl_by_weight(posterior: Posterior, prior: Prior) -> Tensor:
    """Each weight's share (N,) of the KL; the gradient of a low-rank posterior's is in `kl_divergence` alone."""
    return pair_of(posterior, prior).kl_by_weight(posterior, prior)


def kl_divergence(posterior: Posterior, prior: Prior) -> Tensor:
    """KL(posterior || prior)."""
    return pair_of(posterior, prior).kl(posterior, prior)


def draw_with_kl(net: BayesianModule, samples: int = 1, *, counts: bool = True) -> Draw:
    """Weights by name, (S, *shape) for more than one sample, and their KL; perhaps None where it does not count."""
    pair = pair_of(net.posterior, net.prior)
    return pair.draw(net, samples) if counts else pair.draw(net, samples, counts=False)


def moments_with_kl(net: BayesianModule) -> Moments:
    """Means and standard deviations, flat parts (size,) by weight, and their KL."""
    return pair_of(net.posterior, net.prior).moments(net)
