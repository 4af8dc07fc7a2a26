"""What others add by name without editing the library: in a program by these functions, in a package by entry points.

              group                  what its entry points lead to
    model     posterity.models       what each function below takes
    data set  posterity.datasets
    posterior posterity.posteriors
    prior     posterity.priors
    optimizer posterity.optimizers

From then on the name is like one of ours: for `bayesian` and `fit`, on the command line, in configurations, in files.
A file that names what a program registered needs a program that has registered it; entry points are always found.
Each function is a decorator where it is given the name alone.
"""

from __future__ import annotations

from typing import Any

from posterity.data import DATASETS
from posterity.models import MODELS
from posterity.optim import OPTIMIZERS
from posterity.posteriors import POSTERIORS
from posterity.priors import KINDS, SHAPES


def register_model(name: str, builder: Any = None) -> Any:
    """A network: `builder(input_shape, num_outputs, **options)` gives a plain nn.Module; its keywords are options."""
    return MODELS.register(name, builder)


def register_dataset(name: str, source: Any = None) -> Any:
    """Data: `source(seed=, split=)`, with as many of these as it takes, gives training and test data (data.entry)."""
    return DATASETS.register(name, source)


def register_posterior(name: str, family: Any = None) -> Any:
    """A subclass of posteriors.Posterior whose `kind` is the name."""
    return POSTERIORS.register(name, family)


def register_prior(name: str, rule: Any = None) -> Any:
    """A rule with `bind`, whose `distribution` is the class of what it binds to, a priors.Prior of that `kind`."""
    if rule is None:
        return lambda decorated: register_prior(name, decorated)
    KINDS.register(name, rule)
    return SHAPES.register(name, rule)


def register_optimizer(name: str, make: Any = None) -> Any:
    """A class or a function of parameter groups that gives a torch.optim.Optimizer, or an optim.Recipe of one."""
    return OPTIMIZERS.register(name, make)
