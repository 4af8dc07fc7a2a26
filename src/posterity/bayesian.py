"""BayesianModule: a plain network whose weights are drawn from a posterior over one flat vector.

    w ~ q,    net(x) = model(x; w)

The network's code stays as it is: before each pass the slots that held its parameters are filled with views
into the drawn vector, and emptied afterwards. An empty slot cannot be used by accident: there is no mean in it.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

from posterity.core.errors import UsageError
from posterity.core.layout import Layout, Selection, select_parameters, slots
from posterity.core.randomness import NoiseSource, fresh_seed, generator
from posterity.initialisation import MODULE, PRIOR, Init, Start
from posterity.likelihoods import Likelihood, Prediction
from posterity.posteriors import Posterior, posterior_named
from posterity.priors import Gaussian, Prior, PriorRule

DEFAULT_RHO = -5.0  # sd = 0.0067; source 000's -10 is hardly moved by a short training
SAMPLES_AT_A_TIME = 2**26  # weights drawn together in prediction: 256 MiB in single precision
FEW_ROWS = 32  # below this a grouped convolution over all samples beats one convolution a sample (measured)

# Modules whose code torch.vmap can run over many weight samples at a time. Others are run one by one.
FOLDING = (
    nn.Linear, nn.Bilinear, nn.LayerNorm, nn.Embedding, nn.Flatten, nn.Unflatten, nn.Identity, nn.Sequential,
    nn.ModuleList, nn.ModuleDict, nn.Dropout, nn.ReLU, nn.LeakyReLU, nn.ELU, nn.GELU, nn.SiLU, nn.Tanh,
    nn.Sigmoid, nn.Softplus,
)  # fmt: skip
CONVOLUTIONAL = (
    nn.Conv1d,
    nn.Conv2d,
    nn.Conv3d,
    nn.MaxPool2d,
    nn.AvgPool2d,
    nn.AdaptiveAvgPool2d,
    nn.GroupNorm,
)


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
    ) -> None:
        """`model` is taken over: its Bayesian parameters are removed from it."""
        super().__init__()
        self.model = model
        self.layout = layout
        self.posterior = posterior
        self.prior = prior
        self.likelihood = likelihood
        self.noise_source = NoiseSource(fresh_seed() if seed is None else seed)
        parameters = dict(model.named_parameters())
        self._slots = slots(model, [parameters[name] for name in layout.names])
        self._recurrent = [m for m in model.modules() if isinstance(m, nn.RNNBase)]
        self._folds: bool | None = None
        self._empty()

    @property
    def num_weights(self) -> int:
        """N, the number of Bayesian weights."""
        return self.layout.num_weights

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """One pass with freshly drawn weights."""
        return self.call(self.draw(), *args, **kwargs)

    def draw(self, samples: int | None = None) -> Tensor:
        """Weights (N,) or (`samples`, N) from the posterior, differentiable in its parameters."""
        mean = self.posterior.mean
        if not self.posterior.random:
            return mean if samples is None else mean.expand(samples, -1)
        return self.posterior.sample(self.noise(samples))

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
        with self._filled(views):
            return self.model(*args, **kwargs)

    def outputs(
        self, *args: Any, weights: Tensor | None = None, views: Mapping[str, Tensor] | None = None, samples: int = 1
    ) -> Tensor:
        """Outputs (S, ...) for S weight samples, evaluated together where that is faster.

        The weights are drawn, or given as `weights` (N,) or (S, N), or as their `views` by name.
        """
        if samples < 1:
            raise UsageError(f"the number of weight samples must be at least 1, not {samples}")
        if views is None:
            if weights is None:
                weights = self.draw() if samples == 1 else self.draw(samples)
            views = self.layout.views(weights)
        first = self.layout.entries[0]
        if views[first.name].dim() == len(first.shape):
            return _tensor(self.call_views(views, *args)).unsqueeze(0)
        if len(views[first.name]) > 1 and self._evaluates_together(args):
            before = torch.get_rng_state()
            try:
                together = torch.vmap(lambda v: _tensor(self.call_views(v, *args)), randomness="different")
                result: Tensor = together(dict(views))
                return result
            except RuntimeError:  # the network's own code does something vmap cannot: never try again
                self._folds = False
                torch.set_rng_state(before)  # as if it had not been tried: a resumed run may not try again here
        rows = zip(*(view.unbind(0) for view in views.values()), strict=True)
        return torch.stack([_tensor(self.call_views(dict(zip(views, row, strict=True)), *args)) for row in rows])

    @torch.no_grad()
    def predict(
        self, x: ArrayLike | Tensor, samples: int = 32, *, batch_size: int = 1000, seed: int | None = None
    ) -> Prediction:
        """The predictive distribution at `x` (n, ...), with all batches under the same weight samples.

        Memory: the outputs (samples, n, K), a bounded number of weight vectors, and one batch's activations.
        With a `seed` the answer is reproducible and does not depend on what was drawn before.
        """
        if self.likelihood is None:
            raise UsageError("the network has no likelihood yet: train it with fit, or give bayesian(likelihood=...)")
        x = self._as_inputs(x)
        if len(x) == 0:
            raise UsageError("cannot predict for no inputs")
        if samples < 1 or batch_size < 1:
            raise UsageError(f"samples and batch_size must be at least 1, not {samples} and {batch_size}")
        samples = samples if self.posterior.random else 1
        support = self.posterior.support
        if support is not None and samples >= len(support):
            samples = len(support)
        else:
            support = None
        source, modes = self.noise_source, [(module, module.training) for module in self.modules()]
        if seed is not None:
            self.noise_source = NoiseSource(seed)
        self.eval()
        try:
            outputs = self._all_outputs(x, samples, batch_size, support)
        finally:
            for module, training in modes:  # each its own: parts of a network may be frozen in eval mode
                module.training = training
            self.noise_source = source
        parts = outputs.split(batch_size, dim=1)
        return Prediction.concatenate([self.likelihood.predict(part) for part in parts])

    def _as_inputs(self, x: ArrayLike | Tensor) -> Tensor:
        """Arrays become tensors; real numbers get the weights' dtype, whole numbers (tokens) stay as they are."""
        inputs = x if isinstance(x, Tensor) else torch.as_tensor(np.asarray(x))
        return inputs.to(self.posterior.mean.dtype) if inputs.is_floating_point() else inputs

    def _all_outputs(self, x: Tensor, samples: int, batch_size: int, support: Tensor | None) -> Tensor:
        batches = x.split(batch_size)
        together = max(1, SAMPLES_AT_A_TIME // self.num_weights) if self._evaluates_together(batches[:1]) else 1
        rows = []
        for start in range(0, samples, together):
            count = min(together, samples - start)
            weights = self.draw(count) if support is None else support[start : start + count]
            rows.append(torch.cat([self.outputs(batch, weights=weights) for batch in batches], dim=1))
        return torch.cat(rows)

    def _evaluates_together(self, args: tuple[Any, ...]) -> bool:
        if self._folds is None:
            # The user's own composition is tried; PyTorch's (attention, for instance) is known not to fold well.
            modules = list(self.model.modules())
            known = [m for m in modules if not list(m.children()) or type(m).__module__.startswith("torch.")]
            self._folds = all(isinstance(m, FOLDING + CONVOLUTIONAL) for m in known)
            self._convolves = any(isinstance(m, CONVOLUTIONAL) for m in known)
        rows = args[0].shape[0] if args and isinstance(args[0], Tensor) and args[0].dim() else 1
        return self._folds and (rows < FEW_ROWS or not self._convolves)

    @contextmanager
    def _filled(self, views: Mapping[str, Tensor]) -> Iterator[None]:
        try:
            for name, places in zip(self.layout.names, self._slots, strict=True):
                for module, attribute in places:
                    module._parameters[attribute] = views[name]  # type: ignore[assignment]
            self._refresh_recurrent()
            yield
        finally:
            self._empty()

    def _empty(self) -> None:
        for places in self._slots:
            for module, attribute in places:
                module._parameters[attribute] = None
        self._refresh_recurrent()

    def _refresh_recurrent(self) -> None:
        # Recurrent modules keep a list of their weights beside the slots.
        for module in self._recurrent:
            module._flat_weights = [getattr(module, n) for n in module._flat_weights_names]

    def extra_repr(self) -> str:
        """One line for printing."""
        kinds = f"posterior={self.posterior.kind}, prior={self.prior.kind}, num_weights={self.num_weights}"
        return kinds + ("" if self.likelihood is None else f", likelihood={self.likelihood.kind}")

    def __repr__(self) -> str:
        # Modules print which weights they have: the slots must not be empty then (within a pass they are not).
        module, attribute = self._slots[0][0]
        empty = module._parameters[attribute] is None
        with self._filled(self.layout.views(self.posterior.mean.detach())) if empty else nullcontext():
            model = repr(self.model).replace("\n", "\n  ")
        return f"{type(self).__name__}(\n  {self.extra_repr()}\n  (model): {model}\n)"


def bayesian(
    model: nn.Module,
    *,
    prior: PriorRule | float | str | None = None,
    posterior: str = "mean_field",
    init: Init = MODULE,
    rho: float | None = None,
    relative_sd: float | None = None,
    relative_to: str = PRIOR,
    select: Selection = None,
    likelihood: Likelihood | None = None,
    seed: int | None = None,
    **options: Any,
) -> BayesianModule:
    """A Bayesian network from any `nn.Module`, which is copied and left as it is.

    `prior` is a rule such as `Gaussian("kaiming")`, or just a Gaussian's scale. `posterior` is the family:
    "mean_field", "tied" (`share`: "all" or "layer"), "low_rank" (`rank` deviations) or "point"; `options` are its own.
    The means start by `init`: "module" (its present weights), "uniform", "kaiming", "xavier", "glorot", or weights by
    name (posterity.initialisation). The standard deviations start at softplus(`rho`), or at `relative_sd` times the
    prior's or, with `relative_to` "init", times those that the means were drawn with. `select` names the Bayesian
    weights (patterns such as "fc.*", or a predicate of name and parameter); the others stay ordinary parameters.
    """
    if isinstance(model, BayesianModule):
        raise UsageError("the network is Bayesian already")
    if rho is not None and relative_sd is not None:
        raise UsageError(f"give rho ({rho}) or relative_sd ({relative_sd}), not both")
    family = posterior_named(posterior)
    start = Start(init, DEFAULT_RHO if rho is None else rho, relative_sd, relative_to)
    model = copy.deepcopy(model)
    layout = Layout.of(model, select)
    with torch.no_grad():
        weights = start.weights(layout, layout.flatten(select_parameters(model, select)).detach())
        rule = Gaussian() if prior is None else Gaussian(prior) if isinstance(prior, (int, float, str)) else prior
        bound = rule.bind(layout, weights)
        seed = fresh_seed() if seed is None else seed
        q = family.start(
            start.means(model, layout, weights, bound, generator(seed, "initial means")),
            start.sds(model, layout, bound),
            layers=layout.layer_sizes,
            generator=generator(seed, "deviations"),
            **options,
        )
        return BayesianModule(model, layout, q, bound, likelihood=likelihood, seed=seed)


def _tensor(output: Any) -> Tensor:
    if not isinstance(output, Tensor):
        raise UsageError(f"the network must return one tensor, not {type(output).__name__}: wrap it in a module")
    return output
