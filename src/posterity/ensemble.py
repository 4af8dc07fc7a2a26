"""Ensembles: one network whose posterior is a mixture of K that are trained each by itself (of points: source [1]).

    q = (1/K) sum_k q_k,    p(y | x) = (1/K) sum_k E_{q_k} P(y | model(x; w))

Member k has the posterior q_k; all share architecture, prior and likelihood. A learnt noise is each member's own while
it is trained; the ensemble's is the one noise with which mean and variance of the predictive are those of the members'
mixture (likelihoods). What a network has beside its posterior, deterministic weights that are trained and buffers such
as a batch norm's, would have to be one for all members, which were trained with their own: it is refused.

Limits: K = 1 is the network itself.

[1] Lakshminarayanan, Pritzel, Blundell, Simple and scalable predictive uncertainty estimation using deep ensembles,
    2017.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from itertools import zip_longest
from typing import Any

import torch
from torch import nn

from posterity.bayesian import BayesianModule
from posterity.core.errors import UsageError
from posterity.core.hosting import printed
from posterity.core.randomness import NoiseSource, derive, fresh_seed
from posterity.likelihoods import Likelihood
from posterity.posteriors import Mixture, Posterior


def ensemble(
    net: BayesianModule | Sequence[BayesianModule], count: int | None = None, *, seed: int | None = None
) -> BayesianModule:
    """A network that mixes `count` posteriors like that of `net`, or the networks of a list, as they are.

    The first of the `count` starts at the means of `net`, each other one at weights that the modules' own
    `reset_parameters` draw anew; all with its standard deviations. `fit` then trains them, each by itself. Networks of
    a list, trained or not, must differ in nothing but the values of their posterior and of a learnt noise. What is
    random comes from `seed`. What is given is copied, and left as it is.
    """
    seed = fresh_seed() if seed is None else seed
    if not isinstance(net, BayesianModule):
        if count is not None:
            raise UsageError(f"count ({count}) goes with one network; a list has as many members as networks")
        return _mixed(list(net), seed)
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise UsageError(f"an ensemble of one network's kind takes the count of its members, 1 or more, not {count!r}")
    _refuse_nested(net)
    _refuse_unshared(net)
    if not net.posterior.trainable:
        raise UsageError(
            f"a {net.posterior.kind} posterior has no first values to be drawn anew: give a list of such networks"
        )
    first = copy.deepcopy(net.posterior)
    others = [_anew(net, derive(seed, f"member {number}")) for number in range(2, count + 1)]
    return _with_posterior(net, Mixture([first, *others]), seed)


def members(net: BayesianModule) -> list[BayesianModule]:
    """The networks that an ensemble mixes. Their posteriors are its components: what trains one trains the ensemble."""
    assert isinstance(net.posterior, Mixture)
    _refuse_unshared(net)
    return [copy.deepcopy(net, {id(net.posterior): q}) for q in net.posterior.parts]


def member_seed(seed: int, number: int) -> int:
    """The seed that member `number`, from 1, is trained with; the first has the ensemble's own."""
    return seed if number == 1 else derive(seed, f"member {number}")


def pooled(likelihoods: Sequence[Likelihood | None]) -> Likelihood | None:
    """The one likelihood of networks that have these."""
    found = [one for one in likelihoods if one is not None]
    return found[0].pooled(found[1:]) if found else None


def _mixed(nets: list[BayesianModule], seed: int) -> BayesianModule:
    if not nets:
        raise UsageError("an ensemble has at least one network; the list is empty")
    for net in nets:
        if not isinstance(net, BayesianModule):
            raise UsageError(f"an ensemble mixes Bayesian networks; make one with bayesian({type(net).__name__}(...))")
        _refuse_nested(net)
        _refuse_unshared(net)
        _refuse_other(nets[0], net)
    made = _with_posterior(nets[0], Mixture([net.posterior for net in nets]), seed)
    made.likelihood = pooled([net.likelihood for net in nets])
    return made


def _with_posterior(net: BayesianModule, posterior: Posterior, seed: int) -> BayesianModule:
    made = copy.deepcopy(net, {id(net.posterior): posterior})
    made.noise_source = NoiseSource(seed)
    return made


def _anew(net: BayesianModule, seed: int) -> Posterior:
    """The posterior of `net` with means that its modules draw anew."""
    # What no module writes stays NaN, and is then known not to be drawn.
    drawn = torch.full_like(net.posterior.mean.detach(), torch.nan)
    alone = copy.deepcopy(net, {id(net.posterior): net.posterior})  # frozen weights are drawn, too, and not used
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(seed)
        with alone.hosted(net.layout.views(drawn)) as model:
            _reset(model)
        kept = [name for name, part in net.layout.views(drawn).items() if part.isnan().any()]
        if kept:
            raise UsageError(
                f"no module draws {', '.join(kept)} anew (by a reset_parameters that fills them in place): make the "
                "networks yourself, each with first weights of its own, and give their list"
            )
        q = copy.deepcopy(net.posterior)
        q.mean.copy_(drawn)
    return q


def _reset(model: nn.Module) -> None:
    """Draw all weights anew, a module's after those of its parts, as it was made."""
    for child in model.children():
        _reset(child)
    if callable(reset := getattr(model, "reset_parameters", None)):
        reset()


def _refuse_nested(net: BayesianModule) -> None:
    if isinstance(net.posterior, Mixture):
        raise UsageError("the network is an ensemble already; a list of its members and others can be mixed anew")


def _refuse_unshared(net: BayesianModule) -> None:
    """Refuse what would have to be one for all members and is not."""
    trained = [name for name, parameter in net.model.named_parameters() if parameter.requires_grad]
    if trained:
        raise UsageError(
            f"the weights {', '.join(trained)} are trained but not part of the posterior: members would not share "
            "them, and a mixture has but one of each; make all trained weights Bayesian, or freeze these"
        )
    buffers = [name for name, _ in net.model.named_buffers()]
    if buffers:
        raise UsageError(
            f"the buffers {', '.join(buffers)} are not part of the posterior: each member would have its own (a batch "
            "norm's are of its weights), and a mixture has but one of each; take a network without, such as with layer "
            "or group norm"
        )


def _refuse_other(first: BayesianModule, net: BayesianModule) -> None:
    """Refuse to mix networks that differ in more than their posterior's values."""
    for what, ours, theirs in (
        ("architecture", *_first_difference(printed(first.model), printed(net.model))),
        ("weights", first.layout, net.layout),
        ("family", first.posterior.kind, net.posterior.kind),
        ("precision", first.posterior.mean.dtype, net.posterior.mean.dtype),
        ("kind of prior", (first.prior.kind, first.prior.options()), (net.prior.kind, net.prior.options())),
        ("likelihood", _likelihood(first), _likelihood(net)),
    ):
        if ours != theirs:
            raise UsageError(f"an ensemble's members have one {what}; these have {ours} and {theirs}")
    for what, ours, theirs in (
        ("prior", first.prior.state_dict(), net.prior.state_dict()),
        ("deterministic weights", first.model.state_dict(), net.model.state_dict()),
        ("standardisation", _standardisation(first), _standardisation(net)),
    ):
        others = [name for name, value in ours.items() if name not in theirs or not torch.equal(value, theirs[name])]
        others += [name for name in theirs if name not in ours]
        if others:
            raise UsageError(f"an ensemble's members share the {what}; these have other values of {', '.join(others)}")


def _first_difference(ours: list[str], theirs: list[str]) -> tuple[str, str]:
    """The first two lines that differ, or two empty ones."""
    pairs = zip_longest(ours, theirs, fillvalue="nothing")
    return next(((a.strip(), b.strip()) for a, b in pairs if a != b), ("", ""))


def _standardisation(net: BayesianModule) -> dict[str, Any]:
    return {} if net.standardisation is None else net.standardisation.state()


def _likelihood(net: BayesianModule) -> object:
    return net.likelihood and (type(net.likelihood), net.likelihood.options())
