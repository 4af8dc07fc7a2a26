"""BayesianModule: a plain network whose weights are drawn from a posterior over one flat vector.

    w ~ q,    net(x) = model(x; w)

The network's code stays as it is: before each pass the slots that held its parameters are filled with views
into the drawn vector, and emptied afterwards (core.hosting).
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn
from torch.distributions import Distribution
from typing_extensions import Self

from posterity.core import inputs
from posterity.core.errors import UsageError
from posterity.core.hosting import Host, frozen_parts
from posterity.core.inputs import Inputs
from posterity.core.layout import Layout, Selection, select_parameters
from posterity.core.randomness import NoiseSource, fresh_seed
from posterity.core.reading import Output, read_by
from posterity.data import Standardisation
from posterity.data.validation import tensor_of
from posterity.initialisation import MODULE, PRIOR, Init, Start
from posterity.likelihoods import Likelihood, Prediction, check_likelihood
from posterity.posteriors import Posterior, posterior_named
from posterity.prediction import BATCH_SIZE, DEFAULT_SAMPLES, Predictor, Together, draw, outputs_of, predict
from posterity.priors import Prior, PriorRule, prior_rule


class BayesianModule(nn.Module):
    """A network, the layout of its Bayesian weights, their posterior and their prior."""

    posterior: Posterior
    prior: Prior

    def __init__(
        self,
        model: nn.Module,
        layout: Layout,
        posterior: Posterior,
        prior: Prior,
        *,
        likelihood: Likelihood | None = None,
        seed: int | None = None,
        output: Output | None = None,
    ) -> None:
        """`model` is taken over: its Bayesian parameters are removed from it, its output is read by `output`."""
        super().__init__()
        self.model = model
        self.output = output
        read_by(model, output)
        self.layout = layout
        self.posterior = posterior
        self.prior = prior
        self.likelihood = likelihood
        self.standardisation: Standardisation | None = None  # of its training data: then `predict` takes raw inputs
        self.noise_source = NoiseSource(fresh_seed() if seed is None else seed)
        # Places in the layout of the weights that a pass used more than once, which the estimators learn as passes are
        # made: a network may use its modules as often as it likes in each.
        self.several_uses: set[int] = set()
        self._host = Host.of(model, layout.names)
        # Each learns for itself: what a prediction has tried must not change a training.
        self._trains_together, self._predicts_together = Together(model), Together(model)
        for part in self._frozen():
            part.eval()

    @property
    def num_weights(self) -> int:
        """N, the number of Bayesian weights."""
        return self.layout.num_weights

    def train(self, mode: bool = True) -> Self:
        """Training mode, but for parts that have parameters of which none is trained: frozen parts stay in eval mode.

        So statistics of a batch norm in a frozen body stay as they are, and its dropout is off.
        """
        super().train(mode)
        if mode:
            for part in self._frozen():
                part.eval()
        return self

    def _frozen(self) -> list[nn.Module]:
        return frozen_parts(self.model, (module for places in self._host.places.values() for module, _ in places))

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """One pass with freshly drawn weights."""
        return self.call(self.draw(), *args, **kwargs)

    def draw(self, samples: int | None = None) -> Tensor:
        """Weights (N,) or (`samples`, N) from the posterior, differentiable in its parameters."""
        return draw(self.posterior, self.noise_source, samples)

    def noise(self, samples: int | None = None) -> Tensor:
        """Standard normal noise for one or for `samples` draws, (S, noise_size), from the network's own generator."""
        size = self.posterior.noise_size
        shape = (size,) if samples is None else (samples, size)
        return self.noise_source.normal(shape, self.posterior.mean)

    def call(self, weights: Tensor, *args: Any, **kwargs: Any) -> Any:
        """One pass with the given `weights` (N,)."""
        return self.call_views(self.layout.views(weights), *args, **kwargs)

    def call_views(self, views: Mapping[str, Tensor], *args: Any, **kwargs: Any) -> Any:
        """One pass with the given weights by name."""
        return self._host.call(views, *args, **kwargs)

    @contextmanager
    def hosted(self, views: Mapping[str, Tensor]) -> Iterator[nn.Module]:
        """A private copy of the module, in eval mode, with the given weights by name in its slots."""
        host = self._host.private()
        with host.filled(views):
            yield host.model

    @torch.no_grad()
    def trial(self, *args: Any, **kwargs: Any) -> Any:
        """One pass at the mean, in eval mode, on a private copy: to see what comes out. The network stays as it is."""
        with self.hosted(self.layout.views(self.posterior.mean.detach())) as model:
            return inputs.call(model, args[0]) if len(args) == 1 and not kwargs else model(*args, **kwargs)

    @torch.no_grad()
    def takes_one_row(self, x: Inputs) -> bool:
        """Whether a pass in training mode takes this single row, which a batch norm may refuse; nothing changes."""
        frozen = {id(inner) for part in self._frozen() for inner in part.modules()}
        with self.hosted(self.layout.views(self.posterior.mean.detach())) as model, torch.random.fork_rng(devices=[]):
            for own, copied in zip(self.model.modules(), model.modules(), strict=True):
                copied.training = id(own) not in frozen
            try:
                inputs.call(model, inputs.moved(x, self.posterior.mean))
            except ValueError:
                return False
        return True

    def outputs(
        self, *args: Any, weights: Tensor | None = None, views: Mapping[str, Tensor] | None = None, samples: int = 1
    ) -> Tensor:
        """Outputs (S, ...) for S weight samples, evaluated together where that is faster.

        The weights are drawn, or given as `weights` (N,) or (S, N), or as their `views` by name. One argument that is
        a tuple or a dict stands for several (core.inputs).
        """
        if samples < 1:
            raise UsageError(f"the number of weight samples must be at least 1, not {samples}")
        if views is None:
            if weights is None:
                weights = self.draw() if samples == 1 else self.draw(samples)
            views = self.layout.views(weights)
        x = args[0] if len(args) == 1 else args
        return outputs_of(self._host, self.layout, self._trains_together, views, x, rewind=True)

    def predict(
        self,
        x: ArrayLike | Inputs,
        samples: int = DEFAULT_SAMPLES,
        *,
        batch_size: int = BATCH_SIZE,
        seed: int | None = None,
    ) -> Prediction:
        """The predictive distribution at `x` (n, ...), with all batches under the same weight samples.

        A tuple or a dict of inputs becomes the arguments of the network; all go to its device. A network that has a
        `standardisation` (fit's `standardise`, runs) takes raw inputs and answers in raw units.
        Nothing of the network changes (modes, buffers, noise), and any number of threads may predict at a time.
        With a `seed` the answer is reproducible; without, PyTorch's global generator gives one.
        Memory: the outputs (samples, n, K), a bounded number of weight vectors, and one batch's activations.
        """
        scale = self.standardisation
        if scale is None:
            return self.predictive(x, samples, batch_size=batch_size, seed=seed)
        raw = x if isinstance(x, Tensor) else tensor_of(np.asarray(x))  # lists keep all their digits
        prediction = self.predictive(scale.inputs(raw), samples, batch_size=batch_size, seed=seed)
        return prediction.rescaled(scale.y_mean, scale.y_sd) if prediction.rescalable else prediction

    def predictive(
        self,
        x: ArrayLike | Inputs,
        samples: int = DEFAULT_SAMPLES,
        *,
        batch_size: int = BATCH_SIZE,
        seed: int | None = None,
    ) -> Prediction:
        """`predict` in the units of the training: inputs and answers are standardised where the data were."""
        parts = self._host, self.layout, self._predicts_together, self.posterior, self._observed()
        return predict(*parts, x, samples=samples, batch_size=batch_size, seed=seed)

    def predictor(
        self,
        samples: int | None = DEFAULT_SAMPLES,
        *,
        seed: int | None = None,
        standardisation: Standardisation | None = None,
        labels: Sequence[object] | None = None,
    ) -> Predictor:
        """A frozen set of `samples` draws that predicts as `predict` does, without drawing anew: for a service.

        It does not follow the network: train on, and it stays what it was. `samples` None takes the mean weights, which
        know no epistemic uncertainty. With a `standardisation`, by default the network's own, it takes raw inputs and
        answers in the targets' own units; `labels` are the names of the classes, in their order.
        """
        parts = self._host, self.layout, self.posterior, self._observed()
        known = self.standardisation if standardisation is None else standardisation
        meaning: dict[str, Any] = {"standardisation": known, "labels": labels, "output": self.output}
        return Predictor.of(*parts, samples=samples, seed=seed, **meaning)

    def _observed(self) -> Likelihood:
        if self.likelihood is None:
            raise UsageError("the network has no likelihood yet: train it with fit, or give bayesian(likelihood=...)")
        return self.likelihood

    def extra_repr(self) -> str:
        """One line for printing."""
        kinds = f"posterior={self.posterior.kind}, prior={self.prior.kind}, num_weights={self.num_weights}"
        return kinds + ("" if self.likelihood is None else f", likelihood={self.likelihood.kind}")

    def __repr__(self) -> str:
        # Modules print which weights they have, so that slots must be full; those of a pass are not ours to fill.
        with self.hosted(self.layout.views(self.posterior.mean.detach())) as shown:
            model = repr(shown).replace("\n", "\n  ")
        return f"{type(self).__name__}(\n  {self.extra_repr()}\n  (model): {model}\n)"


def bayesian(
    model: nn.Module,
    *,
    prior: PriorRule | Distribution | float | str | None = None,
    posterior: str = "mean_field",
    init: Init = MODULE,
    rho: float | None = None,
    relative_sd: float | None = None,
    relative_to: str = PRIOR,
    select: Selection = None,
    likelihood: Likelihood | None = None,
    seed: int | None = None,
    output: Output | None = None,
    **options: Any,
) -> BayesianModule:
    """A Bayesian network from any `nn.Module`, which is copied and left as it is.

    `prior` is a rule such as `Gaussian("kaiming")`, just a Gaussian's scale, or a `torch.distributions` object over
    the reals, that of each weight. `posterior` is the family:
    "mean_field", "tied" (`share`: "all" or "layer"), "low_rank" (`rank` deviations) or "point"; `options` are its own.
    The means start by `init`: "module" (its present weights), "uniform", "kaiming" or another scale by rule, or weights
    by name (posterity.initialisation). The standard deviations start at a tenth of the prior's, at
    softplus(`rho`), or at `relative_sd` times the prior's or, with `relative_to` "init", times those that the means
    were drawn with. `select` names the Bayesian weights (patterns such as "fc.*", modules of the network, or a
    predicate of name and parameter); the others stay ordinary parameters. `output` says what of a tuple, a dict or an
    object that the network returns is its output: a name, a place or a function (core.reading).
    """
    if isinstance(model, BayesianModule):
        raise UsageError("the network is Bayesian already")
    if not isinstance(model, nn.Module):
        raise _no_network(model)
    if likelihood is not None:
        check_likelihood(likelihood)
    if rho is not None and relative_sd is not None:
        raise UsageError(f"give rho ({rho}) or relative_sd ({relative_sd}), not both")
    family = posterior_named(posterior)
    start = Start(init, rho, relative_sd, relative_to)
    if select is not None:
        chosen = frozenset(select_parameters(model, select))  # by name: the copy has other modules
        select = lambda name, _: name in chosen  # noqa: E731
    model = copy.deepcopy(model)
    layout = Layout.of(model, select)
    with torch.no_grad():
        weights = start.weights(layout, layout.flatten(select_parameters(model, select)).detach())
        bound = prior_rule(prior).bind(layout, weights)
        seed = fresh_seed() if seed is None else seed
        q = family.start(
            start.means(model, layout, weights, bound, seed),
            start.sds(model, layout, weights, bound),
            layers=layout.layer_sizes,
            seed=seed,
            **options,
        )
        return BayesianModule(model, layout, q, bound, likelihood=likelihood, seed=seed, output=output)


def _no_network(given: object) -> UsageError:
    made = f"; make one of the class, {given.__name__}(...)" if isinstance(given, type) else ""
    return UsageError(f"bayesian takes a network, an nn.Module, not {given!r}{made}")
