"""What every way to train offers to the plan and to the loop."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar

from torch import nn
from torch.optim import Optimizer

from posterity.bayesian import BayesianModule
from posterity.core.errors import UsageError
from posterity.core.options import check_options, options_of
from posterity.likelihoods import Likelihood
from posterity.optim import build_optimizer, build_schedule, construct
from posterity.priors import Prior
from posterity.training.groups import DETERMINISTIC, ParameterGroup

if TYPE_CHECKING:
    from posterity.training.settings import Settings

# Settings of the standard deviations' own training.
OF_SDS = (
    "optimizer_sd",
    "lr_sd",
    "lr_ratio",
    "optimizer_sd_options",
    "schedule_sd",
    "schedule_sd_options",
    "alternate",
)


@dataclass(frozen=True)
class Subject:
    """What is to be trained: `prior` and `likelihood` are those of the training, which the network may not have yet.

    A `small` regression's temperature warms (training.warming).
    """

    net: BayesianModule
    prior: Prior
    likelihood: Likelihood
    settings: Settings
    num_data: int
    batch_size: int
    num_batches: int
    small: bool = False

    @property
    def optimizer(self) -> str:
        """The name of what trains the means, which a plan has settled."""
        assert self.settings.optimizer is not None
        return self.settings.optimizer

    @property
    def deterministic(self) -> list[nn.Parameter]:
        """What is trained beside the posterior: deterministic weights, parameters of the likelihood."""
        return list(filter(attrgetter("requires_grad"), [*self.net.model.parameters(), *self.likelihood.trained()]))


class Method(ABC):
    """A way to train a posterior: stateless, one for each name that `optimizer` may have."""

    brings_prior: ClassVar[bool] = False  # its steps have the prior in them: the loss leaves the KL out
    collects: ClassVar[str | None] = None  # what is made of its iterates, if nothing else is asked for
    owns_sds: ClassVar[bool] = False  # the standard deviations follow from its own state

    def __init__(self, name: str) -> None:
        self.name = name

    @property
    def default_lr(self) -> float | None:
        """The rate if none is given; None where it follows from the data."""
        return None

    @abstractmethod
    def refuse(self, subject: Subject) -> None:
        """Refuse settings and networks that it cannot train; changes nothing."""

    @abstractmethod
    def groups(self, subject: Subject) -> list[ParameterGroup]:
        """The groups with their optimisers; changes nothing in the network, and refuses wrong options."""

    def begin(self, groups: Sequence[ParameterGroup]) -> None:  # noqa: B027
        """What it changes in the network before the first step."""

    def moving(self, groups: Sequence[ParameterGroup], epoch: int, settings: Settings) -> Sequence[ParameterGroup]:
        """The groups that step in the epoch after `epoch` finished ones."""
        return groups


class WholeMethod(Method):
    """A method that trains the posterior as one group; deterministic weights are trained by Adam."""

    def refuse(self, subject: Subject) -> None:
        """Settings of parts of the posterior have no meaning."""
        settings = subject.settings
        for name in OF_SDS:
            if not settings.is_default(name):
                raise UsageError(
                    f"{name} ({getattr(settings, name)!r}) is for standard deviations, which '{self.name}' does not "
                    "train by themselves: leave it out"
                )
        if settings.kl_decay != 1:
            raise UsageError(f"'{self.name}' has the prior in every step: kl_decay must be 1")
        self.temperature(subject)

    def temperature(self, subject: Subject) -> float:
        """The one temperature of what it trains to."""
        rule = subject.settings.temperature_rule
        if rule.settled is not rule:
            raise UsageError(f"'{self.name}' samples at one temperature: give one without a warm-up")
        temperature = rule.bind(subject.net, subject.num_data)(0.0)
        if not temperature > 0:
            raise UsageError(f"'{self.name}' needs a temperature above 0; at 0 there is nothing to sample")
        return temperature

    def whole_groups(
        self, subject: Subject, make: Callable[..., Optimizer], *, lr: float | None, given: Mapping[str, Any]
    ) -> list[ParameterGroup]:
        """The posterior in one group, moved by what `make` builds, and the deterministic weights, if there are any.

        `given` are its arguments that are not options; the rest of its signature is `optimizer_options`.
        """
        settings = subject.settings
        known = options_of(make, beside=("self", "params", "lr", *given))
        check_options(f"optimizer '{self.name}'", settings.optimizer_options, known)
        parameters = [p for members in subject.net.posterior.groups().values() for p in members]
        options = {**given, **settings.optimizer_options}
        optimizers = {"posterior": construct(self.name, make, parameters, lr=lr, settings=options)}
        if subject.deterministic:
            optimizers[DETERMINISTIC] = build_optimizer("adam", [{"params": subject.deterministic}])
        name, course = settings.schedule_of(sd=False)
        return [
            ParameterGroup(group, made, build_schedule(name, epochs=settings.length, **course))
            for group, made in optimizers.items()
        ]
