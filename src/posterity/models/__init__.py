"""Plain networks: nothing Bayesian in them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import nn

from posterity.core.errors import UsageError
from posterity.core.options import Option, check_options, options_of
from posterity.core.registry import Registry
from posterity.models.cnn import cnn
from posterity.models.densenet import densenet121
from posterity.models.embedded import Embedded
from posterity.models.lenet import lenet5
from posterity.models.mean_field_net import MeanFieldNet, mean_field
from posterity.models.mlp import mlp
from posterity.models.perceptron import perceptron
from posterity.models.resnet import resnet20, resnet34
from posterity.models.vgg import vgg11, vgg19

Builder = Callable[..., nn.Module]  # of the shapes of inputs and outputs, and options


def _taken(name: str, builder: Any) -> Builder:
    if not callable(builder):
        raise UsageError(f"the model '{name}' must be a function of input_shape and num_outputs, not {builder!r}")
    made: Builder = builder
    return made


MODELS = Registry[Builder](
    "model",
    "models",
    {
        "mlp": mlp,
        "lenet5": lenet5,
        "perceptron": perceptron,
        "cnn": cnn,
        "mean-field": mean_field,
        "vgg11": vgg11,
        "vgg19": vgg19,
        "resnet20": resnet20,
        "resnet34": resnet34,
        "densenet121": densenet121,
    },
    _taken,
)
IMAGES, TABLES = "lenet5", "mlp"  # what is taken where none is named
TABLE_HIDDEN = (50,)  # of that mlp


def default_model(input_shape: Sequence[int]) -> tuple[str, dict[str, Any]]:
    """Name and options of the network for such inputs."""
    return (IMAGES, {}) if len(input_shape) == 3 else (TABLES, {"hidden": TABLE_HIDDEN})


def model_options(name: str) -> dict[str, Any]:
    """What the model `name` can be told beside the shapes of its inputs and outputs, with the defaults."""
    return {key: option.default for key, option in _known(name).items()}


def check_model_options(name: str, options: Mapping[str, Any]) -> None:
    """Refuse an unknown model, and options that it does not take or that are of another kind than it takes."""
    check_options(f"model '{name}'", options, _known(name))


def build_model(name: str, input_shape: Sequence[int], num_outputs: int, **options: Any) -> nn.Module:
    """A network by its name."""
    builder = MODELS.named(name)
    if options:
        check_model_options(name, options)
    return builder(input_shape, num_outputs, **options)


def _known(name: str) -> dict[str, Option]:
    return options_of(MODELS.named(name), beside=("input_shape", "num_outputs"))


__all__ = [
    "IMAGES",
    "MODELS",
    "TABLES",
    "Embedded",
    "MeanFieldNet",
    "build_model",
    "check_model_options",
    "cnn",
    "default_model",
    "densenet121",
    "lenet5",
    "mean_field",
    "mlp",
    "model_options",
    "perceptron",
    "resnet20",
    "resnet34",
    "vgg11",
    "vgg19",
]
