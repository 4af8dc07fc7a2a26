"""What is taken for the output of a network that returns more than one tensor.

    "logits"    an entry of a dict, or an attribute of an object (as transformers' networks return it)
    0           a place in a tuple or a list
    function    anything else: it is given what the network returns, and returns a tensor

It is a hook of the module, so that every pass has it: training, prediction, export. A name or a place is saved with the
network; a function is code, and is given again when the network is loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor, nn

from posterity.core.errors import UsageError

Output = str | int | Callable[[Any], Tensor]
FUNCTION = "function"


class _Reader:
    """The hook: a class, so that copies of the module have it as well."""

    def __init__(self, output: Output) -> None:
        self.output = output

    def __call__(self, module: nn.Module, given: tuple[Any, ...], returned: Any) -> Any:
        found = _read(returned, self.output)
        if not isinstance(found, Tensor):
            raise UsageError(f"output={self.output!r} is a {type(found).__name__}, not a tensor: name another")
        return found


def read_by(model: nn.Module, output: Output | None) -> None:
    """Make `model` return what `output` says, in place."""
    if output is None:
        return
    if isinstance(output, bool) or not (isinstance(output, (str, int)) or callable(output)):
        raise UsageError(f"output is the name, the place or a function of what the network returns, not {output!r}")
    model.register_forward_hook(_Reader(output))


def described(output: Output | None) -> str | int | dict[str, str] | None:
    """As plain values, for a file."""
    return {FUNCTION: getattr(output, "__qualname__", type(output).__name__)} if callable(output) else output


def restored(stored: Any, given: Output | None) -> Output | None:
    """What a file says, or for a function what is `given` with it."""
    if isinstance(stored, Mapping) and not callable(given):
        raise UsageError(f"the network's output is read by a function, '{stored[FUNCTION]}': load(..., output=...)")
    return stored if given is None else given


def _read(returned: Any, output: Output) -> Any:
    if callable(output):
        return output(returned)
    try:
        if isinstance(output, int) or isinstance(returned, Mapping):
            return returned[output]
        return getattr(returned, output)
    except (KeyError, IndexError, AttributeError, TypeError) as error:
        has = f" with {', '.join(map(str, returned))}" if isinstance(returned, Mapping) else ""
        raise UsageError(
            f"the network returns a {type(returned).__name__}{has}, which has no output {output!r}: name another"
        ) from error
