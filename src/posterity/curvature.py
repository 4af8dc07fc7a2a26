"""Gauss-Newton curvature of the summed nll at one weight vector: what of its Hessian is due to the outputs f alone.

    G = sum_n J_n^T L_n J_n,    J_n = d f_n / d w (K, N),    L_n = -d^2 log P(y_n | f) / d f^2 = R_n R_n^T (K, K)

L is diag(p) - p p^T for classes, p (1 - p) for yes or no, 1 / noise^2 for real targets. It is exact, not the squared
gradients of the labels (the empirical Fisher). G is the Hessian where the outputs are linear in the weights.

    diagonal      G_ii = sum_n sum_k (J_n^T R_n)_ik^2
    last layer    f = W h + b:  G = sum_n L_n (x) phi_n phi_n^T,  phi = (h, 1), in one pass, without a gradient

A linear map or convolution with inputs a_np and outputs z_np at positions p has, with d_npk = (d f_n / d z_np)^T times
column k of R_n, the gradient sum_p d_npk a_np^T: K backward passes for a batch give those of all its rows (`LAYERS`).
A layer's formula is only used where it gives what autograd gives, row by row on a few rows: layers that are called
twice, whose weights are used elsewhere too, or whose first axis is not the batch's, are among the other weights. Those
have the gradients of each row by torch.vmap, or one by one where vmap cannot.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.func import vjp, vmap
from torch.nn import functional as F

from posterity.bayesian import BayesianModule
from posterity.core.errors import UsageError
from posterity.core.layout import Entry
from posterity.likelihoods import Likelihood
from posterity.posteriors.full import check_size

CHUNK = 2**25  # gradients of single rows held at a time: 128 MiB in single precision
TRIED = 8  # rows on which a layer's formula is compared with autograd
ROUNDING = 1e-14  # of an output's curvature, in double precision


class Call(NamedTuple):
    """One call of a layer: its input, and its output as autograd knows it."""

    layer: str
    input: Tensor
    output: Tensor


class Form(NamedTuple):
    """What turns a layer's input into (n, P, I), and its output or a gradient there into (n, P, O), by position."""

    inputs: Callable[[Any, Tensor], Tensor]
    outputs: Callable[[Tensor], Tensor]


def _by_position(values: Tensor) -> Tensor:
    return values.reshape(len(values), -1, values.shape[-1])


def _patches(module: nn.Conv2d, values: Tensor) -> Tensor:
    shape: dict[str, Any] = {"dilation": module.dilation, "padding": module.padding, "stride": module.stride}
    return F.unfold(values, module.kernel_size, **shape).mT


LAYERS: dict[type[nn.Module], Form] = {
    nn.Linear: Form(lambda module, values: _by_position(values), _by_position),
    nn.Conv2d: Form(_patches, lambda values: values.flatten(2).mT),
}


class Curvature:
    """The Gauss-Newton matrix of a network at its posterior's mean, in eval mode, for outputs of one kind."""

    def __init__(self, net: BayesianModule, likelihood: Likelihood, *, batch_size: int) -> None:
        self.net = copy.deepcopy(net).eval()  # with hooks of our own
        self.mean = net.posterior.mean.detach().clone()
        self.likelihood = likelihood
        self.batch_size = batch_size
        self._calls: list[Call] | None = None  # of the pass that is under way, if they are wanted
        self._modules = {n: m for n, m in self.net.model.named_modules() if _is_known(m)}
        for name, module in self._modules.items():
            module.register_forward_hook(partial(self._seen, name))

    def outputs(self, x: Tensor) -> Tensor:
        """Outputs (n, K) at the mean."""
        return torch.cat([self._pass(part)[0].detach() for part in x.split(self.batch_size)])

    def diagonal(self, x: Tensor, y: Tensor) -> Tensor:
        """G's diagonal (N,), in double precision."""
        layers = self._faithful(x)
        by_layer = {entry.name for name in layers for entry in self._entries(name).values()}
        rest = [entry.name for entry in self.net.layout.entries if entry.name not in by_layer]
        parts = {e.name: torch.zeros(e.shape, dtype=torch.float64).to(x.device) for e in self.net.layout.entries}
        rows = max(1, min(self.batch_size, CHUNK // self.net.num_weights))
        for own_x, own_y in zip(x.split(rows), y.split(rows), strict=True):
            outputs, _, calls = self._pass(own_x)
            factors = output_factors(self.likelihood, outputs.detach(), own_y).to(outputs)
            used = [call for call in calls if call.layer in layers]
            inputs = [self._inputs(call) for call in used]
            for deltas in self._backward(outputs, factors, used):
                for call, values, delta in zip(used, inputs, deltas, strict=True):
                    self._add_squares(parts, call.layer, values, delta)
            if rest:
                self._add_rest(parts, rest, own_x, factors)
        return self.net.layout.flatten(parts)

    def last_layer(self, x: Tensor, y: Tensor) -> tuple[list[str], Tensor]:
        """Names of the last layer's weights, and G (M, M) over them in this order, in double precision."""
        layer = self._last_linear(x)
        entries = self._entries(layer)
        weight, bias = entries["weight"], "bias" in entries
        num_outputs, num_inputs = weight.shape
        size = num_inputs + bias
        check_size(num_outputs * size)
        total = torch.zeros(num_outputs, num_outputs, size, size, dtype=torch.float64, device=x.device)
        for own_x, own_y in zip(x.split(self.batch_size), y.split(self.batch_size), strict=True):
            outputs, _, calls = self._pass(own_x)
            (call,) = (call for call in calls if call.layer == layer)
            _check_last(layer, call, outputs)
            factors = output_factors(self.likelihood, outputs.detach(), own_y)
            features = F.pad(call.input.double(), (0, int(bias)), value=1.0)
            for k, rows in enumerate(torch.matmul(factors, factors.mT).unbind(1)):  # L_n's rows k (n, K)
                for j in range(k + 1):
                    total[k, j] += torch.matmul((features * rows[:, j : j + 1]).T, features)
        k, j = torch.triu_indices(num_outputs, num_outputs, 1)
        total[k, j] = total[j, k]  # each block is symmetric itself
        order = torch.arange(num_outputs * size).view(num_outputs, size)
        places = torch.cat([order[:, :num_inputs].flatten(), order[:, num_inputs:].flatten()])
        whole = total.permute(0, 2, 1, 3).reshape(num_outputs * size, num_outputs * size)
        return [entry.name for entry in entries.values()], whole[places][:, places]

    def _seen(self, name: str, module: nn.Module, args: tuple[Any, ...], output: Tensor) -> Tensor:
        if args and self._calls is not None:
            self._calls.append(Call(name, args[0].detach(), output))
        return output.clone()  # the network may change it in place; an input it may not, which autograd refuses

    def _pass(self, x: Tensor) -> tuple[Tensor, Tensor, list[Call]]:
        """Outputs (n, K), the weights they were made with, and the layers' calls."""
        calls: list[Call] = []
        self._calls = calls
        try:
            with torch.enable_grad():
                weights = self.mean.clone().requires_grad_()
                return self.net.call(weights, x), weights, calls
        finally:
            self._calls = None

    def _entries(self, layer: str) -> dict[str, Entry]:
        """Places in the vector of a layer's Bayesian weights, by their attribute."""
        prefix = f"{layer}." if layer else ""
        known = {entry.name: entry for entry in self.net.layout.entries}
        return {a: known[prefix + a] for a in ("weight", "bias") if prefix + a in known}

    def _backward(self, outputs: Tensor, factors: Tensor, calls: list[Call]) -> Iterator[list[Tensor]]:
        """For each column of R the gradients at the calls' outputs."""
        for k in range(outputs.shape[1] if calls else 0):
            found = [call.output for call in calls]
            deltas = torch.autograd.grad(outputs, found, factors[:, :, k], retain_graph=True, allow_unused=True)
            yield [torch.zeros_like(z) if d is None else d for d, z in zip(deltas, found, strict=True)]

    def _inputs(self, call: Call) -> Tensor:
        module = self._modules[call.layer]
        return LAYERS[type(module)].inputs(module, call.input)

    def _add_squares(self, parts: dict[str, Tensor], layer: str, inputs: Tensor, delta: Tensor) -> None:
        deltas = LAYERS[type(self._modules[layer])].outputs(delta)
        for attribute, entry in self._entries(layer).items():
            if attribute == "bias":
                squares = deltas.sum(1).square().sum(0)
            elif inputs.shape[1] == 1:
                squares = torch.matmul(deltas[:, 0].square().T, inputs[:, 0].square())
            else:
                squares = torch.matmul(deltas.mT, inputs).square().sum(0)
            parts[entry.name] += squares.view(entry.shape)

    def _faithful(self, x: Tensor) -> set[str]:
        """The layers whose formula gives the gradient that autograd gives, for each of a few rows by itself."""
        x = x[:TRIED]
        outputs, weights, calls = self._pass(x)
        names = [call.layer for call in calls]
        calls = [c for c in calls if names.count(c.layer) == 1 and len(c.input) == len(c.output) == len(x)]
        calls = [c for c in calls if c.output.requires_grad]  # frozen layers at the input have no gradient
        good = {call.layer for call in calls if self._entries(call.layer)}
        direction = torch.linspace(1, 2, outputs.shape[1]).to(outputs)
        for row in range(len(x)):
            wanted = [weights, *(call.output for call in calls)]
            found = torch.autograd.grad(outputs[row] @ direction, wanted, retain_graph=True, allow_unused=True)
            views = self.net.layout.views(found[0])
            for call, delta in zip(calls, found[1:], strict=True):
                if delta is None or not self._agrees(call, delta, row, views):
                    good.discard(call.layer)
        return good

    def _agrees(self, call: Call, delta: Tensor, row: int, views: dict[str, Tensor]) -> bool:
        inputs, deltas = self._inputs(call), LAYERS[type(self._modules[call.layer])].outputs(delta)
        ours = {"weight": torch.matmul(deltas[row].T, inputs[row]), "bias": deltas[row].sum(0)}
        for attribute, entry in self._entries(call.layer).items():
            theirs = views[entry.name]
            least = 1e-4 * float(theirs.abs().max())
            if not torch.allclose(ours[attribute].reshape(entry.shape), theirs, rtol=1e-3, atol=least):
                return False
        return True

    def _add_rest(self, parts: dict[str, Tensor], names: list[str], x: Tensor, factors: Tensor) -> None:
        """The weights of no known layer, from the gradients of each row."""
        views = self.net.layout.views(self.mean)
        chosen = {name: views[name] for name in names}

        def squares(row: Tensor, factor: Tensor) -> dict[str, Tensor]:
            pull = vjp(lambda some: self.net.call_views({**views, **some}, row.unsqueeze(0))[0], chosen)[1]
            return {name: g.square().sum(0) for name, g in vmap(pull)(factor.T)[0].items()}

        each = max(1, CHUNK // (factors.shape[-1] * sum(v.numel() for v in chosen.values())))
        for own_x, own_factors in zip(x.split(each), factors.split(each), strict=True):
            try:
                with warnings.catch_warnings():
                    warnings.filterwarnings("ignore", message="There is a performance drop")  # vmap's own loop will do
                    found = {name: s.sum(0) for name, s in vmap(squares)(own_x, own_factors).items()}
            except RuntimeError:  # what vmap has no rule for
                found = self._one_by_one(chosen, own_x, own_factors)
            for name, total in found.items():
                parts[name] += total

    def _one_by_one(self, chosen: dict[str, Tensor], x: Tensor, factors: Tensor) -> dict[str, Tensor]:
        totals = {name: torch.zeros_like(view) for name, view in chosen.items()}
        views = self.net.layout.views(self.mean)
        for row, factor in zip(x, factors, strict=True):
            some = {name: view.detach().clone().requires_grad_() for name, view in chosen.items()}
            with torch.enable_grad():
                output = self.net.call_views({**views, **some}, row.unsqueeze(0))[0]
            for column in factor.T:
                grads = torch.autograd.grad(output, list(some.values()), column, retain_graph=True, allow_unused=True)
                for name, grad in zip(some, grads, strict=True):
                    if grad is not None:
                        totals[name] += grad.square()
        return totals

    def _last_linear(self, x: Tensor) -> str:
        """The linear layer that gives the network's output."""
        outputs, _, calls = self._pass(x[:TRIED])
        linear = [call for call in calls if isinstance(self._modules[call.layer], nn.Linear)]
        if not linear:
            raise UsageError("the network has no nn.Linear layer: take structure 'diagonal'")
        layer = linear[-1].layer
        _check_last(layer, linear[-1], outputs)
        if layer not in self._faithful(x) or "weight" not in self._entries(layer):
            raise UsageError(
                f"the weights of the last layer, '{layer}', are used elsewhere too, or are not among the Bayesian "
                "ones: take structure 'diagonal'"
            )
        return layer


def output_factors(likelihood: Likelihood, outputs: Tensor, y: Tensor) -> Tensor:
    """R (n, K, K), in double precision, with R R^T the Hessian of -log P(y | f) at the outputs f (n, K)."""
    if not outputs.isfinite().all():
        raise UsageError("the network's outputs are NaN or infinite for some of the data: give a trained network")
    with torch.enable_grad():
        at = outputs.detach().double().requires_grad_()
        (slope,) = torch.autograd.grad(-likelihood.log_prob(at.unsqueeze(0), y).sum(), at, create_graph=True)
        # A row's log P has its own outputs alone, so that the rows' Hessians may be taken together.
        columns = [torch.autograd.grad(column.sum(), at, retain_graph=True)[0] for column in slope.unbind(1)]
    values, vectors = torch.linalg.eigh(torch.stack(columns, 2))
    if (values[:, 0] < -(1e-6 * values[:, -1].abs() + ROUNDING)).any():
        raise UsageError(
            f"-log P(y | f) of this {likelihood.kind} likelihood is not convex in the outputs, so that it has no "
            "Gauss-Newton curvature: take a fixed or learnt noise"
        )
    factors: Tensor = vectors * values.clamp_min(0).sqrt().unsqueeze(1)
    return factors


def _check_last(layer: str, call: Call, outputs: Tensor) -> None:
    if call.input.dim() != 2 or not torch.equal(call.output.detach(), outputs.detach()):
        raise UsageError(
            f"the last linear layer, '{layer}', does not give the network's outputs: structure 'last_layer' is for "
            "networks that end in nn.Linear; take 'diagonal'"
        )


def _is_known(module: nn.Module) -> bool:
    """Whether there is a formula for such a module; subclasses may do something else."""
    if type(module) is nn.Conv2d:
        return module.groups == 1 and module.padding_mode == "zeros" and not isinstance(module.padding, str)
    return type(module) in LAYERS
