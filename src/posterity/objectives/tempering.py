"""Temperature rules: the factor eta on the KL, as a number, by the network's size, or warmed up.

    number       eta; 1 is Bayes' rule
    auto         eta = min(AUTO_MOST, tau p / N), the default; a training goes from 0 to a temperature around that, by
                 its loss and its KL (objectives.balance); a regression warms by another rule (training.warming).
                 What has no such course (samplers, IVON, a point network) has it all the time
    per_weight   eta = tau p / N,   p = num_data, N = the number of Bayesian weights
    per_neuron   eta = tau p / N,   N = the number of hidden neurons of a network with one hidden layer
    warm_up      eta ramp(t / E),   t = epochs done, E = epochs of the warm-up
                   linear   ramp(u) = min(u, 1)
                   cosine   ramp(u) = (1 - cos(pi min(u, 1))) / 2

Without a rule the KL grows with the width while the nll does not, and the optimum tends to the prior; with
eta = tau p / N the per-datum loss is nll + tau * (mean KL of a weight, or of a neuron), whatever the width [1].
Source [1] has neurons in its theory and parameters in its conclusion: for one hidden layer the two rules differ by
the constant d, the weights of a neuron (per_neuron(tau) = per_weight(tau d)).

Limits: E -> 0 is no warm-up; the ramp is 0 at t = 0 and 1 from t = E on. All are pure functions of t: nothing to lose
when a run is resumed.

[1] Huix, Majewski, Durmus, Moulines, Korba, Variational inference of overparameterized Bayesian neural networks, 2022.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import nn

from posterity.bayesian import BayesianModule
from posterity.core.errors import UsageError, unknown_name

LINEAR, COSINE = "linear", "cosine"
AUTO_TAU = 0.06
AUTO_MOST = 0.06  # with more data for each weight, mean-field networks underfit above it
SHAPES: dict[str, Callable[[float], float]] = {
    LINEAR: lambda share: share,
    COSINE: lambda share: 0.5 * (1 - math.cos(math.pi * share)),
}


class TemperatureRule(ABC):
    """A temperature that is known once the network and the data are."""

    kind: ClassVar[str]

    @abstractmethod
    def bind(self, net: BayesianModule, num_data: int) -> Callable[[float], float]:
        """The temperature as a function of the epochs done."""

    @abstractmethod
    def as_settings(self) -> dict[str, Any]:
        """The rule as settings of plain values; `temperature_rule` is the inverse."""

    @property
    def settled(self) -> TemperatureRule:
        """The rule once a warm-up is over."""
        return self

    def ramp(self, epochs: float) -> float:
        """The share of the settled temperature that is in force after so many epochs."""
        return 1.0


@dataclass(frozen=True)
class FixedTemperature(TemperatureRule):
    """A number."""

    value: float
    kind = "number"

    def __post_init__(self) -> None:
        if isinstance(self.value, bool) or not isinstance(self.value, (int, float)):
            raise UsageError(f"a temperature is a number or a rule such as per_weight(), not {self.value!r}")
        if not (math.isfinite(self.value) and self.value >= 0):
            raise UsageError(f"the temperature must be a number of at least 0, not {self.value}")

    def bind(self, net: BayesianModule, num_data: int) -> Callable[[float], float]:
        """Itself, always."""
        return lambda epochs: float(self.value)

    def as_settings(self) -> dict[str, Any]:
        """The number."""
        return {"temperature": self.value}


@dataclass(frozen=True)
class PerWeight(TemperatureRule):
    """tau * num_data / num_weights."""

    tau: float = 1.0
    kind = "per-weight"

    def __post_init__(self) -> None:
        _check_tau(self.tau)

    def bind(self, net: BayesianModule, num_data: int) -> Callable[[float], float]:
        """The same at all times."""
        return FixedTemperature(self.tau * num_data / net.num_weights).bind(net, num_data)

    def as_settings(self) -> dict[str, Any]:
        """The rule's name, and tau."""
        return {"temperature": self.kind, "tau": self.tau}


@dataclass(frozen=True)
class Auto(TemperatureRule):
    """By the data, around tau * num_data / num_weights, or AUTO_MOST where that is less."""

    tau: float = AUTO_TAU
    kind = "auto"

    def __post_init__(self) -> None:
        _check_tau(self.tau)

    def bind(self, net: BayesianModule, num_data: int) -> Callable[[float], float]:
        """The constant that a course by the data is around."""
        return FixedTemperature(min(AUTO_MOST, self.tau * num_data / net.num_weights)).bind(net, num_data)

    def as_settings(self) -> dict[str, Any]:
        """The rule's name, and tau."""
        return {"temperature": self.kind, "tau": self.tau}


@dataclass(frozen=True)
class PerNeuron(TemperatureRule):
    """tau * num_data / hidden neurons, for a network with one hidden layer."""

    tau: float = 1.0
    kind = "per-neuron"

    def __post_init__(self) -> None:
        _check_tau(self.tau)

    def bind(self, net: BayesianModule, num_data: int) -> Callable[[float], float]:
        """The same at all times."""
        return FixedTemperature(self.tau * num_data / hidden_neurons(net.model)).bind(net, num_data)

    def as_settings(self) -> dict[str, Any]:
        """The rule's name, and tau."""
        return {"temperature": self.kind, "tau": self.tau}


@dataclass(frozen=True)
class TemperatureWarmUp(TemperatureRule):
    """From 0 up to `target`, a number or another rule, over the first `epochs`."""

    target: float | str | TemperatureRule
    epochs: float = 5.0
    shape: str = LINEAR
    kind = "warm-up"

    def __post_init__(self) -> None:
        if isinstance(as_rule(self.target), TemperatureWarmUp):
            raise UsageError("a warm-up leads to a number, auto, per_weight or per_neuron, not to another warm-up")
        if not (math.isfinite(self.epochs) and self.epochs > 0):
            raise UsageError(f"a warm-up of the temperature takes a positive number of epochs, not {self.epochs}")
        if self.shape not in SHAPES:
            raise unknown_name("shape of a warm-up", self.shape, SHAPES)

    @property
    def settled(self) -> TemperatureRule:
        """The target."""
        return as_rule(self.target)

    def bind(self, net: BayesianModule, num_data: int) -> Callable[[float], float]:
        """The target's temperature times the ramp."""
        full = as_rule(self.target).bind(net, num_data)
        return lambda epochs: full(epochs) * self.ramp(epochs)

    def ramp(self, epochs: float) -> float:
        """By the shape."""
        return SHAPES[self.shape](min(epochs / self.epochs, 1.0))

    def as_settings(self) -> dict[str, Any]:
        """The target's, and the ramp."""
        ramp = {"temperature_warmup": self.epochs, "temperature_warmup_shape": self.shape}
        return {**as_rule(self.target).as_settings(), **ramp}


auto, per_weight, per_neuron, warm_up = Auto, PerWeight, PerNeuron, TemperatureWarmUp
TEMPERATURES: dict[str, Callable[..., TemperatureRule]] = {rule.kind: rule for rule in (Auto, PerWeight, PerNeuron)}
Temperature = float | str | TemperatureRule


def as_rule(temperature: Temperature, *, tau: float | None = None) -> TemperatureRule:
    """The rule that a number, a rule's name or a rule stands for; `tau` goes with a name, which has one of its own."""
    if isinstance(temperature, TemperatureRule):
        return temperature
    if isinstance(temperature, str):
        if temperature not in TEMPERATURES:
            raise unknown_name("temperature (a number, or the name of a rule)", temperature, TEMPERATURES)
        return TEMPERATURES[temperature](**({} if tau is None else {"tau": tau}))
    return FixedTemperature(temperature)


def temperature_rule(
    temperature: Temperature, tau: float | None = None, warmup: float = 0.0, shape: str = LINEAR
) -> TemperatureRule:
    """The rule that these settings stand for: the inverse of `as_settings`, with `warmup` in epochs, 0 for none."""
    if tau is not None and not isinstance(temperature, str):
        raise UsageError(f"tau ({tau}) goes with temperature {' or '.join(TEMPERATURES)}, not with {temperature}")
    if shape not in SHAPES:
        raise unknown_name("shape of a warm-up", shape, SHAPES)
    rule = as_rule(temperature, tau=tau)
    return TemperatureWarmUp(rule, warmup, shape) if warmup else rule


def hidden_neurons(model: nn.Module) -> int:
    """Width of the only hidden layer of `model`: two linear maps with nothing trainable beside them."""
    holders = [module for module in model.modules() if module._parameters]
    linear = [module for module in holders if isinstance(module, nn.Linear)]
    if len(holders) != 2 or len(linear) != 2 or linear[0].out_features != linear[1].in_features:
        found = ", ".join(type(module).__name__ for module in holders) or "nothing"
        raise UsageError(
            "a temperature per neuron is defined for one hidden layer, two linear maps in sequence; this network has "
            f"weights in {found}: use per_weight (per-weight), which is defined for every network"
        )
    return linear[0].out_features


def _check_tau(tau: float) -> None:
    if not (math.isfinite(tau) and tau >= 0):
        raise UsageError(f"tau must be a number of at least 0, not {tau}")
