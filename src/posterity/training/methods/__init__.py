"""Ways to train a posterior, by the name that `optimizer` has: each owns its options, its refusals and its groups."""

from collections.abc import Iterator, Mapping

from posterity.optim import OPTIMIZERS
from posterity.training.methods.gradient import Gradient
from posterity.training.methods.ivon import Ivon
from posterity.training.methods.langevin import DYNAMICS, Langevin
from posterity.training.methods.method import Method, Subject

WHOLE: dict[str, Method] = {"ivon": Ivon("ivon"), **{name: Langevin(name) for name in DYNAMICS}}


class _Methods(Mapping[str, Method]):
    """Each optimiser that is known, and those that train the posterior as a whole."""

    own = (*OPTIMIZERS.own, *WHOLE)

    def __getitem__(self, name: str) -> Method:
        if name in WHOLE:
            return WHOLE[name]
        OPTIMIZERS[name]  # which is known, or refused
        return Gradient(name)

    def __contains__(self, name: object) -> bool:
        return name in WHOLE or name in OPTIMIZERS

    def __iter__(self) -> Iterator[str]:
        return iter((*OPTIMIZERS, *WHOLE))

    def __len__(self) -> int:
        return len(OPTIMIZERS) + len(WHOLE)

    def available(self) -> list[str]:
        """All names, those of packages that are not imported yet among them."""
        return sorted((*OPTIMIZERS.available(), *WHOLE))


METHODS = _Methods()

__all__ = ["METHODS", "Method", "Subject"]
