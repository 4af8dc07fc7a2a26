"""One flat vector for all Bayesian weights of a network, and its named views.

    vector (N,)  ->  {name: view of shape}          no copy, in both directions of autograd one `cat`

A 4-d weight (out, in, height, width) is stored as (out, height, width, in), so that its view is already
channels-last: convolutions then run in the format that is fastest on a CPU, with no conversion.
A weight that is used at several places (tied, or a shared module) has one place in the vector.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from math import prod

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from posterity.core.errors import UsageError, unknown_name

# Patterns of names, modules, or a predicate of name and parameter.
Selection = str | nn.Module | Sequence[str | nn.Module] | Callable[[str, nn.Parameter], bool] | None


@dataclass(frozen=True)
class Entry:
    """One weight tensor's place in the vector."""

    name: str
    shape: tuple[int, ...]
    fan_in: int
    fan_out: int
    groups: int = 1  # of a convolution, which divide its first axis
    transposed: bool = False  # stored as (in, out / groups, ...), not (out, in / groups, ...)

    @property
    def size(self) -> int:
        """How many weights it has."""
        return prod(self.shape)

    @property
    def layer(self) -> str:
        """Name of the module that holds it (its own name at the top level)."""
        return self.name.rpartition(".")[0] or self.name

    @property
    def matrix(self) -> tuple[int, ...]:
        """(groups, rows, columns) of the weight of a linear map, (size,) of others: biases, norms, look-up tables."""
        if len(self.shape) < 2 or self.fan_in == 1:
            return (self.size,)
        return self.groups, self.shape[0] // self.groups, self.size // self.shape[0]

    def view(self, part: Tensor) -> Tensor:
        """`part` (..., size) as (..., *shape)."""
        lead = part.shape[:-1]
        if len(self.shape) != 4:
            return part.view(lead + self.shape)
        out, inputs, height, width = self.shape
        return part.view((*lead, out, height, width, inputs)).movedim(-1, -3)

    def flat(self, tensor: Tensor) -> Tensor:
        """The inverse of `view`: (..., *shape) as (..., size)."""
        if len(self.shape) == 4:
            tensor = tensor.movedim(-3, -1)
        lead = tensor.shape[: tensor.dim() - len(self.shape)]
        return tensor.reshape(*lead, self.size)


@dataclass(frozen=True)
class Layout:
    """Names, shapes and places of the Bayesian weights in the flat vector."""

    entries: tuple[Entry, ...]
    sizes: list[int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "sizes", [entry.size for entry in self.entries])

    @property
    def num_weights(self) -> int:
        """N, the length of the vector."""
        return sum(self.sizes)

    @property
    def names(self) -> list[str]:
        """Names of the weight tensors, in the vector's order."""
        return [entry.name for entry in self.entries]

    @property
    def matrices(self) -> list[tuple[int, ...]]:
        """Those of the entries, see `Entry.matrix`."""
        return [entry.matrix for entry in self.entries]

    @property
    def layer_sizes(self) -> list[int]:
        """Sizes of the consecutive layers (a module's weights and biases together) in the vector."""
        return [sum(e.size for e in entries) for _, entries in groupby(self.entries, key=lambda e: e.layer)]

    def views(self, vector: Tensor) -> dict[str, Tensor]:
        """Named views (..., *shape) into `vector` (..., N)."""
        if vector.shape[-1] != self.num_weights:
            raise UsageError(f"a vector of {vector.shape[-1]} weights does not fit a layout of {self.num_weights}")
        return self.shape(vector.split_with_sizes(self.sizes, dim=-1))

    def shape(self, parts: Sequence[Tensor]) -> dict[str, Tensor]:
        """Named views (..., *shape) of the vector's consecutive `parts` (..., size)."""
        return {entry.name: entry.view(part) for entry, part in zip(self.entries, parts, strict=True)}

    def flatten(self, tensors: Mapping[str, Tensor]) -> Tensor:
        """The vector (..., N) whose views are `tensors`."""
        missing = [name for name in self.names if name not in tensors]
        if missing:
            raise UsageError(f"no weights given for {', '.join(missing)}")
        wrong = [e for e in self.entries if tuple(tensors[e.name].shape[-len(e.shape) :] if e.shape else ()) != e.shape]
        if wrong:
            shape = tuple(tensors[wrong[0].name].shape)
            raise UsageError(f"weights for {wrong[0].name} have shape {shape}; expected {wrong[0].shape}")
        return torch.cat([entry.flat(tensors[entry.name]) for entry in self.entries], dim=-1)

    def fill(self, values: Iterable[float]) -> Tensor:
        """The vector (N,), in double precision, that holds one value for each weight tensor."""
        each = zip(self.sizes, values, strict=True)
        return torch.cat([torch.full((size,), value, dtype=torch.float64) for size, value in each])

    def sum_by_layer(self, vector: Tensor) -> dict[str, Tensor]:
        """Sums of `vector` (N,) over each layer (a module's weights and biases together)."""
        sums: dict[str, Tensor] = {}
        for entry, part in zip(self.entries, vector.split(self.sizes), strict=True):
            sums[entry.layer] = sums.get(entry.layer, 0) + part.sum()
        return sums

    def weight_at(self, index: int) -> str:
        """Name of the weight tensor that holds place `index` of the vector."""
        for entry in self.entries:
            if index < entry.size:
                return entry.name
            index -= entry.size
        raise IndexError(index)

    @classmethod
    def of(cls, model: nn.Module, select: Selection = None) -> Layout:
        """Layout of the weights of `model` that `select` names: patterns, a predicate, or all trainable ones."""
        chosen = select_parameters(model, select)
        _refuse_changing(model, chosen)
        return cls(tuple(_entries(model, chosen)))


def matrices_of(model: nn.Module) -> dict[int, tuple[int, ...]]:
    """By the identity of each parameter of the model, see `Entry.matrix`."""
    known = dict(model.named_parameters())
    return {id(p): entry.matrix for p, entry in zip(known.values(), _entries(model, known), strict=True)}


def _entries(model: nn.Module, chosen: Mapping[str, nn.Parameter]) -> list[Entry]:
    fans, convolutions = _fans(model), _convolutions(model)
    plain = (1, False)
    return [Entry(n, tuple(p.shape), *fans[id(p)], *convolutions.get(id(p), plain)) for n, p in chosen.items()]


def select_parameters(model: nn.Module, select: Selection = None) -> dict[str, nn.Parameter]:
    """The parameters that `select` names, each once, checked to fit in one vector."""
    known = dict(model.named_parameters())
    if any(isinstance(p, nn.UninitializedParameter) for p in known.values()):
        raise UsageError("the network has lazy layers: run one batch through it before making it Bayesian")
    if select is None:
        chosen = {n: p for n, p in known.items() if p.requires_grad}
    elif callable(select) and not isinstance(select, nn.Module):
        chosen = {n: p for n, p in known.items() if select(n, p)}
    else:
        each = [select] if isinstance(select, (str, nn.Module)) else list(select)
        names = {name for one in each for name in _names(model, known, one)}
        chosen = {n: p for n, p in known.items() if n in names}
    if not chosen:
        raise UsageError(f"no weight was selected to be Bayesian; the network has: {', '.join(known) or 'none'}")
    kinds = {(p.dtype, p.device) for p in chosen.values()}
    if len(kinds) > 1 or not next(iter(kinds))[0].is_floating_point:
        raise UsageError(f"Bayesian weights must share one real floating dtype and one device; found {kinds}")
    return chosen


def _names(model: nn.Module, known: Mapping[str, nn.Parameter], one: str | nn.Module) -> list[str]:
    """The names of `known` that a pattern matches, or of a module's parameters."""
    if isinstance(one, str):
        found = [name for name in known if fnmatch.fnmatchcase(name, one)]
        if not found:
            raise unknown_name("weight pattern", one, known)
        return found
    if not isinstance(one, nn.Module):
        raise UsageError(f"select takes patterns of names or modules of the network, not a {type(one).__name__}")
    if not any(module is one for module in model.modules()):
        raise UsageError(
            f"the {type(one).__name__} in select is no module of the network that it was given with; it is found by "
            f"identity: take it from that network, or name its weights: {', '.join(known)}"
        )
    own = {id(parameter) for parameter in one.parameters()}
    return [name for name, parameter in known.items() if id(parameter) in own]


def _refuse_changing(model: nn.Module, chosen: Mapping[str, nn.Parameter]) -> None:
    """Refuse weights that their own module changes in a pass."""
    names = {id(parameter): name for name, parameter in chosen.items()}
    for module in model.modules():
        name = names.get(id(module._parameters.get("weight")))
        if name is not None and getattr(module, "max_norm", None) is not None:
            raise UsageError(
                f"{name}: an embedding with max_norm changes its weights as it is used, which a weight sample does not "
                "allow: leave out max_norm, or keep the embedding deterministic (select=)"
            )


def _fans(model: nn.Module) -> dict[int, tuple[int, int]]:
    """(n_in, n_out) of every parameter; a bias has its layer's, a scale or a shift of a norm has 1."""
    fans: dict[int, tuple[int, int]] = {}
    for module in model.modules():
        own = {n: p for n, p in module._parameters.items() if p is not None}
        for name, parameter in own.items():
            fans.setdefault(id(parameter), _fan(module, _weight_beside(module, own, name)))
    return fans


def _convolutions(model: nn.Module) -> dict[int, tuple[int, bool]]:
    """(groups, transposed) of the weights of convolutions; not of parametrised ones, whose parts have other shapes."""
    found = (m for m in model.modules() if hasattr(m, "transposed") and isinstance(m._parameters.get("weight"), Tensor))
    return {id(m.weight): (int(m.groups), bool(m.transposed)) for m in found}  # type: ignore[arg-type]


def _weight_beside(module: nn.Module, own: Mapping[str, Tensor], name: str) -> Tensor:
    """The weight whose layer parameter `name` belongs to: a bias's weight, anything else itself."""
    weight = name.replace("bias", "weight")
    if parametrize.is_parametrized(module, weight):
        originals: Iterable[Tensor] = module.parametrizations[weight].parameters()  # type: ignore[index, union-attr]
        return max(originals, key=Tensor.numel)
    if name == "in_proj_bias" and "q_proj_weight" in own:  # attention with keys of another size
        weight = "q_proj_weight"
    return own.get(weight, own[name])


def _fan(module: nn.Module, weight: Tensor) -> tuple[int, int]:
    if isinstance(module, (nn.Embedding, nn.EmbeddingBag)):
        return 1, weight.shape[-1]  # a look-up is a linear map of a one-hot input: one weight reaches each output
    if weight.dim() < 2 or isinstance(module, (nn.LayerNorm, nn.RMSNorm)):
        return 1, 1
    if isinstance(module, nn.MultiheadAttention) and weight.dim() == 3:
        return weight.shape[-1], weight.shape[-1]  # bias_k, bias_v: (1, 1, embedding)
    positions = prod(weight.shape[2:])
    groups = getattr(module, "groups", 1)
    if getattr(module, "transposed", False):  # stored as (in, out / groups, ...)
        return weight.shape[0] // groups * positions, weight.shape[1] * positions
    return weight.shape[1] * positions, weight.shape[0] // groups * positions
