"""One training step and one prediction of every peer, written as its own documentation has it.

    loss = cross entropy of the batch + KL / num_data,  one weight sample,  Adam with lr 1e-3

Factors that multiply the whole loss differ between peers (torch_blue and Pyro scale it to the data set);
Adam does not see them.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from networks import Workload

LEARNING_RATE = 1e-3
LINEAR_ARGUMENTS = ("in_features", "out_features")
CONV_ARGUMENTS = ("in_channels", "out_channels", "kernel_size", "stride", "padding", "dilation", "groups")

Loss = Callable[[Tensor, Tensor], Tensor]
Sampler = Callable[[Tensor, int], Tensor]


class PeerUnavailable(Exception):
    """A peer that cannot run a workload; the message is the reason."""


class Steps(NamedTuple):
    """What is timed: train_step(x, y), and predict(x, samples) giving mean probabilities (B, C)."""

    train_step: Callable[[Tensor, Tensor], None]
    predict: Sampler


class Elbo(NamedTuple):
    """A network that a peer has made Bayesian: its loss(x, y), and its logits(x, samples) (S, B, C)."""

    model: nn.Module
    loss: Loss
    logits: Sampler

    def steps(self) -> Steps:
        """The usual PyTorch step, and predictions in evaluation mode."""
        return Steps(adam_step(self.model, self.loss), predictor(self.model, self.logits))


def imported(name: str) -> Any:
    """The peer's module `name`, or PeerUnavailable."""
    try:
        # posteriors 0.1.3 greets a new tensordict with forty warnings.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return importlib.import_module(name)
    except ImportError as error:
        raise PeerUnavailable(f"{name} does not import ({error}); run `make bench` to install it") from error


def swapped(model: nn.Module, linear: Callable[..., nn.Module], conv: Callable[..., nn.Module]) -> nn.Module:
    """`model` with its Linear and Conv2d layers, at any depth, replaced by `linear(...)` and `conv(...)`."""
    for name, child in model.named_children():
        if isinstance(child, nn.Linear):
            setattr(model, name, rebuilt(linear, child, LINEAR_ARGUMENTS))
        elif isinstance(child, nn.Conv2d):
            setattr(model, name, rebuilt(conv, child, CONV_ARGUMENTS))
        else:
            swapped(child, linear, conv)
    return model


def rebuilt(factory: Callable[..., nn.Module], layer: nn.Module, arguments: tuple[str, ...]) -> nn.Module:
    """`factory` called with the constructor `arguments` of `layer`."""
    return factory(bias=layer.bias is not None, **{name: getattr(layer, name) for name in arguments})


def adam_step(model: nn.Module, loss: Loss) -> Callable[[Tensor, Tensor], None]:
    """The usual PyTorch step on `loss(x, y)`."""
    optimizer = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE)

    def train_step(x: Tensor, y: Tensor) -> None:
        optimizer.zero_grad()
        torch.autograd.backward(loss(x, y))
        optimizer.step()

    return train_step


def predictor(model: nn.Module, logits: Sampler) -> Sampler:
    """Mean probabilities (B, C) from `logits` (S, B, C), in evaluation mode."""

    @torch.no_grad()
    def predict(x: Tensor, samples: int) -> Tensor:
        model.eval()
        mean = logits(x, samples).softmax(-1).mean(0)
        model.train()
        return mean

    return predict


def repeated(model: nn.Module) -> Sampler:
    """Logits (S, B, C) of a module that draws new weights in every forward."""
    return lambda x, samples: torch.stack([model(x) for _ in range(samples)])


def drawing(model: nn.Module, kl: Callable[[], Tensor], num_data: int) -> Elbo:
    """Of a module that draws new weights in every forward."""
    return Elbo(model, lambda x, y: F.cross_entropy(model(x), y) + kl() / num_data, repeated(model))


def pytorch(workload: Workload) -> Steps:
    """The yardstick: no weight uncertainty, one forward for any number of samples."""
    model = workload.make_model()
    train_step = adam_step(model, lambda x, y: F.cross_entropy(model(x), y))
    return Steps(train_step, predictor(model, lambda x, samples: model(x)[None]))


def bayesian_torch(model: nn.Module, num_data: int, *, kind: str) -> Elbo:
    """bayesian-torch as in its README, `kind` Reparameterization or Flipout; its readme has a batch for `num_data`."""
    converter = imported("bayesian_torch.models.dnn_to_bnn")
    prior = {
        "prior_mu": 0.0,
        "prior_sigma": 1.0,
        "posterior_mu_init": 0.0,
        "posterior_rho_init": -3.0,
        "type": kind,
        "moped_enable": False,
        "moped_delta": 0.5,
    }
    converter.dnn_to_bnn(model, prior)
    # Its KL is a mean over the elements of each tensor, summed over tensors: not the KL of the ELBO.
    return drawing(model, lambda: converter.get_kl_loss(model), num_data)


def torchbnn(workload: Workload) -> Steps:
    """torchbnn with the prior of its demos, N(0, 0.1^2)."""
    bnn = imported("torchbnn")
    prior = {"prior_mu": 0.0, "prior_sigma": 0.1}
    layers = (partial(bnn.BayesLinear, **prior), partial(bnn.BayesConv2d, **prior))
    model = swapped(workload.make_model(), *layers)
    # Its demos take reduction="mean", a mean over weights; "sum" is the KL of the ELBO.
    kl = bnn.BKLLoss(reduction="sum")
    return drawing(model, lambda: kl(model), workload.num_data).steps()


def blitz(workload: Workload) -> Steps:
    """BLiTZ; every forward computes log q - log p of the sampled weights, in prediction too."""
    modules = imported("blitz.modules")
    # The decorator changes the class it is given: give it one of our own.
    estimator = imported("blitz.utils").variational_estimator(type("Estimator", (nn.Sequential,), {}))
    network = swapped(workload.make_model(), modules.BayesianLinear, modules.BayesianConv2d)
    model = estimator(network)
    loss = partial(
        model.sample_elbo,
        criterion=nn.CrossEntropyLoss(),
        sample_nbr=1,
        complexity_cost_weight=1 / workload.num_data,
    )
    return Steps(adam_step(model, loss), predictor(model, repeated(model)))


def torch_blue(network: nn.Module, num_data: int, *, analytical: bool, sd: float | None = None) -> Elbo:
    """torch_blue with the KL at the sampled weights (its quick start), or in closed form.

    The closed form also makes its linear layers sample activations instead of weights. With `sd` it begins there, and
    at the network's own weights, instead of at weights of its own with an sd of the same size.
    """
    vi = imported("torch_blue.vi")
    distributions = imported("torch_blue.vi.distributions")
    likelihood, start = distributions.Categorical(), {}
    if sd is not None:
        start = {"keep_weights": True, "kaiming_initialization": False}
        start["variational_distribution"] = distributions.MeanFieldNormal(std=sd)
    model: Any = network
    # It runs the network under vmap, which cannot update batch norm's running averages: they are dropped.
    torch.func.replace_all_batch_norm_modules_(model)
    vi.convert_to_vimodule(model, **start)
    if analytical:
        elbo = vi.AnalyticalKullbackLeiblerLoss(model, likelihood, dataset_size=num_data)
    else:
        elbo = vi.KullbackLeiblerLoss(likelihood, dataset_size=num_data)

    def logits(x: Tensor, samples: int) -> Tensor:
        model.return_log_probs = False
        out: Tensor = model(x, samples=samples)
        model.return_log_probs = not analytical
        return out.as_subclass(Tensor)

    return Elbo(model, lambda x, y: elbo(model(x, samples=1), y), logits)


def posteriors(workload: Workload) -> Steps:
    """posteriors' vi.diag over all parameters, batch norm included, with torchopt's Adam."""
    library = imported("posteriors")
    model = workload.make_model()
    # As in torch_blue: torch.func.grad cannot update running averages either.
    torch.func.replace_all_batch_norm_modules_(model)

    def log_posterior(params: dict[str, Tensor], batch: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        x, y = batch
        output = torch.func.functional_call(model, params, (x,))
        log_prior = library.diag_normal_log_prob(params)
        return log_prior / workload.num_data - F.cross_entropy(output, y), output

    adam = imported("torchopt").adam(lr=LEARNING_RATE)
    transform = library.vi.diag.build(log_posterior, adam, temperature=1 / workload.num_data, init_log_sds=-3.0)
    state = transform.init(dict(model.named_parameters()))

    def train_step(x: Tensor, y: Tensor) -> None:
        nonlocal state
        state, _ = transform.update(state, (x, y))

    def logits(x: Tensor, samples: int) -> Tensor:
        draws = (library.vi.diag.sample(state) for _ in range(samples))
        return torch.stack([torch.func.functional_call(model, draw, (x,)) for draw in draws])

    return Steps(train_step, predictor(model, logits))


def pyro(workload: Workload) -> Steps:
    """Pyro's AutoNormal guide under SVI; batch norm keeps point estimates."""
    library, nn_, infer = imported("pyro"), imported("pyro.nn"), imported("pyro.infer")
    guides, dist = imported("pyro.infer.autoguide"), imported("pyro.distributions")
    # Without this two models share one global store, by name.
    library.settings.set(module_local_params=True)
    network = workload.make_model()
    start = {name: value.detach().clone() for name, value in network.named_parameters()}
    nn_.module.to_pyro_module_(network)
    for module in network.modules():
        for name, value in list(module.named_parameters(recurse=False)):
            if isinstance(module, nn.BatchNorm2d):
                setattr(module, name, nn_.PyroParam(value.detach()))
            else:
                prior = dist.Normal(0.0, 1.0).expand(value.shape).to_event(value.dim())
                setattr(module, name, nn_.PyroSample(prior))

    def model(x: Tensor, y: Tensor | None = None) -> Tensor:
        logits: Tensor = network(x)
        with library.plate("data", workload.num_data, subsample=x):
            library.sample("label", dist.Categorical(logits=logits), obs=y)
        return logits

    guide = guides.AutoNormal(model, init_loc_fn=guides.init_to_value(values=start), init_scale=0.05)
    svi = infer.SVI(model, guide, library.optim.Adam({"lr": LEARNING_RATE}), infer.Trace_ELBO())
    # The guide takes its sites from its first call, which must see the labels observed.
    guide(*workload.make_batch())

    def logits(x: Tensor, samples: int) -> Tensor:
        predictive = infer.Predictive(model, guide=guide, num_samples=samples, return_sites=("_RETURN",))
        out: Tensor = predictive(x)["_RETURN"]
        return out

    def train_step(x: Tensor, y: Tensor) -> None:
        svi.step(x, y)

    return Steps(train_step, predictor(network, logits))


def converted(workload: Workload, *, by: Callable[[nn.Module, int], Elbo]) -> Steps:
    """Steps of the workload's network that `by` makes Bayesian."""
    return by(workload.make_model(), workload.num_data).steps()


PEERS: dict[str, Callable[[Workload], Steps]] = {
    "pytorch": pytorch,
    "bayesian-torch": partial(converted, by=partial(bayesian_torch, kind="Reparameterization")),
    "bayesian-torch flipout": partial(converted, by=partial(bayesian_torch, kind="Flipout")),
    "blitz": blitz,
    "torchbnn": torchbnn,
    "torch_blue": partial(converted, by=partial(torch_blue, analytical=False)),
    "torch_blue analytical": partial(converted, by=partial(torch_blue, analytical=True)),
    "posteriors": posteriors,
    "pyro": pyro,
}
