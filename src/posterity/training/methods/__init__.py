"""Ways to train a posterior, by the name that `optimizer` has: each owns its options, its refusals and its groups."""

from posterity.optim import OPTIMIZERS
from posterity.training.methods.gradient import Gradient
from posterity.training.methods.ivon import Ivon
from posterity.training.methods.langevin import DYNAMICS, Langevin
from posterity.training.methods.method import Method, Subject

METHODS: dict[str, Method] = {
    **{name: Gradient(name) for name in OPTIMIZERS},
    "ivon": Ivon("ivon"),
    **{name: Langevin(name) for name in DYNAMICS},
}

__all__ = ["METHODS", "Method", "Subject"]
