"""Data as a network takes them: what is given to `fit` becomes a feed, and is tried on the network.

    Dataset, (x, y)                       in memory; a pair's real numbers get the network's dtype
    torch Dataset, DataLoader, LoaderData batch by batch (data.loading)

Integers in the x of a pair stay integers where the network takes them as such, which a trial pass of two rows tells:
those of an embedding do, those of a linear layer become real. uint8 (pixels) become real wherever the network takes
that. In a tuple or a dict of several inputs integers and truth values stay. A Dataset is left as it is.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn
from torch.utils.data import DataLoader
from torch.utils.data import Dataset as TorchDataset

from posterity.bayesian import BayesianModule
from posterity.core import inputs
from posterity.core.errors import DataError, UsageError
from posterity.core.inputs import Inputs
from posterity.data import Dataset, Feed, LoaderData, MemoryFeed
from posterity.data.dataset import Task
from posterity.data.validation import numeric
from posterity.likelihoods import Bernoulli, Categorical, GaussianNoise, Likelihood, MultiLabel
from posterity.training.settings import Settings

Data = Dataset | tuple[Any, Any] | LoaderData | TorchDataset[Any] | DataLoader[Any] | Feed
FAILURES = (RuntimeError, ValueError, IndexError, TypeError)  # of a network that is given what it cannot take


def as_feed(
    data: Data,
    net: BayesianModule,
    settings: Settings,
    *,
    likelihood: Likelihood | None = None,
    num_data: int | None = None,
) -> Feed:
    """What a training of `net` on `data` is fed from; a `likelihood` says what integer targets are."""
    if isinstance(data, Feed):
        return data
    loaded = _as_loader_data(data)
    if loaded is None:
        if num_data is not None:
            raise UsageError(f"num_data ({num_data}) is for streams; data in memory have their own number of rows")
        found = as_dataset(data, net, likelihood)
        return _without_lone_row(lambda rows: MemoryFeed(found, rows), len(found), net, settings)
    if isinstance(loaded.source, DataLoader) and not settings.is_default("batch_size"):
        raise UsageError(f"batch_size ({settings.batch_size}) goes with data that we batch; a DataLoader has its own")
    loaded = replace(loaded, num_data=num_data or loaded.num_data, task=loaded.task or _task_of(likelihood))
    given: dict[str, Any] = {"seed": settings.seed, "like": net.posterior.mean}

    def feed(rows: int) -> Feed:
        return loaded.feed(batch_size=rows, **given, width=lambda x: _trial(net, x).shape[1])

    if loaded.streams or isinstance(loaded.source, DataLoader):
        return feed(settings.batch_size)
    return _without_lone_row(feed, len(loaded.source), net, settings)  # type: ignore[arg-type]


def _without_lone_row(make: Callable[[int], Feed], num_rows: int, net: BayesianModule, settings: Settings) -> Feed:
    """A feed in batches of `batch_size`, or of the next size that leaves no lone row, if the network takes none.

    A batch norm has no spread of one.
    """
    size = settings.batch_size
    feed = make(size)
    while size < num_rows and num_rows % size == 1:
        size += 1
    if size == settings.batch_size or net.takes_one_row(inputs.take(feed.at_hand.x, slice(0, 1))):
        return feed
    if not settings.is_default("batch_size"):
        warnings.warn(
            f"batches of {settings.batch_size} would leave one of {num_rows} rows over, of which a batch norm has no "
            f"spread: they are of {size}",
            UserWarning,
            stacklevel=4,
        )
    return make(size)


def as_validation(
    data: Data | None, net: BayesianModule, feed: Feed, *, likelihood: Likelihood | None = None
) -> Dataset | None:
    """Validation data, in memory: what a loader brings is read whole."""
    loaded = _as_loader_data(data)
    if loaded is None:
        return None if data is None else as_dataset(data, net, likelihood)
    train = feed.at_hand
    loaded = replace(loaded, task=loaded.task or train.task)
    return loaded.whole(batch_size=feed.batch_size, like=net.posterior.mean, num_classes=train.num_classes)


def _as_loader_data(data: Any) -> LoaderData | None:
    if isinstance(data, LoaderData):
        return data
    return LoaderData(data) if isinstance(data, (TorchDataset, DataLoader)) else None


def as_dataset(data: Any, net: BayesianModule, likelihood: Likelihood | None = None) -> Dataset:
    """`data` in memory: itself, or made of a pair (x, y), whose real numbers then get the network's dtype."""
    found = as_raw(data, net, likelihood)
    return found if found is data else found.to(net.posterior.mean.dtype)


def as_raw(data: Any, net: BayesianModule, likelihood: Likelihood | None = None) -> Dataset:
    """`data` in memory as they are: itself, or made of a pair (x, y).

    A `likelihood` says what the targets are: integers are counts, for a Poisson. Labels in arrays may lack classes that
    the network has outputs for, as a fold's do.
    """
    if isinstance(data, Dataset):
        return data
    if not (isinstance(data, (tuple, list)) and len(data) == 2):
        raise DataError(
            f"data are a posterity.Dataset, a pair (x, y) of arrays or, for fit, a torch Dataset or DataLoader, not a "
            f"{type(data).__name__}"
        )
    x, y = data
    task = _task_of(likelihood)
    if likelihood is not None and likelihood.task is None and numeric(y, "targets").dtype.kind == "f":
        task = "regression"  # and 0 and 1 are numbers: it knows what to make of them
    found = Dataset.from_arrays(x, y, task=task, tokens=_stays_whole(x, net))
    if found.task != "classification":
        return found
    try:
        width = _trial(net, found.x).shape[1]
    except Exception:  # what it is, check_fit says
        return found
    known = (likelihood or Categorical()).num_classes_of(width)
    return replace(found, num_classes=max(found.num_classes, known))


def _task_of(likelihood: Likelihood | None) -> Task | None:
    """What a likelihood takes the targets for; labels are known by themselves."""
    return None if likelihood is None or likelihood.task == "classification" else likelihood.task


def default_likelihood(data: Dataset, noise: float | str = "learnt") -> Likelihood:
    """The usual likelihood for the data's task, a regression's with this `noise`."""
    if data.task == "classification":
        return Categorical()
    if data.task == "binary":
        return Bernoulli()
    return GaussianNoise(noise, num_targets=data.num_outputs)


def check_fit(net: BayesianModule, likelihood: Likelihood, data: Dataset) -> None:
    """Refuse data that does not fit the network, by two of its rows."""
    dtype = net.posterior.mean.dtype
    for part in inputs.parts(data.x):
        if part.is_floating_point() and part.dtype != dtype:
            raise DataError(f"the inputs are {part.dtype}, the network's weights {dtype}; convert one")
    try:
        output = _trial(net, data.x)
    except FAILURES as error:
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise DataError(f"the network cannot take inputs of shape {inputs.shapes(data.x)}: {reason}") from error
    likelihood.check_targets(data.y)
    maps = tuple(data.y.shape[1:]) if data.task == "classification" else ()
    expected = likelihood.output_shape(data.num_outputs, maps)
    if output.shape[1:] != expected:
        what = "classes" if data.task == "classification" else "targets"
        one_logit = output.shape[1:] == (1,) and data.num_classes == 2
        hint = "; for one logit give the labels as task='binary'" if one_logit else ""
        if data.task == "regression" and likelihood.kind == GaussianNoise.kind:
            hint = "; float targets mean regression: for classes give integers"
        raise DataError(
            f"the network gives outputs of shape {tuple(output.shape[1:])}; {data.name} with {data.num_outputs} "
            f"{what} and a {likelihood.kind} likelihood needs {tuple(expected)}" + hint
        )
    if _ends_with_probabilities(net, likelihood, data.x, output):
        warnings.warn(
            f"the network ends with probabilities, and the {likelihood.kind} likelihood wants logits, of which it takes"
            " the softmax or the sigmoid itself: leave out the network's own",
            UserWarning,
            stacklevel=4,
        )


def _ends_with_probabilities(net: BayesianModule, likelihood: Likelihood, x: Inputs, output: Tensor) -> bool:
    """Whether logits are wanted, and these are none: shares that sum to 1, or the very output of a sigmoid."""
    if likelihood.kind == Categorical.kind:
        return bool((output >= 0).all()) and torch.allclose(output.sum(1), torch.ones(()).to(output))
    if likelihood.kind not in (Bernoulli.kind, MultiLabel.kind):
        return False
    given: list[Tensor] = []
    with torch.no_grad(), net.hosted(net.layout.views(net.posterior.mean.detach())) as model:
        sigmoids = [module for module in model.modules() if isinstance(module, nn.Sigmoid)]
        hooks = [module.register_forward_hook(lambda _, __, result: given.append(result)) for module in sigmoids]
        last = inputs.call(model, _two_rows(net, x)) if sigmoids else None
        for hook in hooks:
            hook.remove()
    return any(each is last for each in given)


def check_alike(train: Dataset, val: Dataset) -> None:
    """Refuse validation data of another kind than what is trained on."""
    types = [[part.dtype for part in inputs.parts(data.x)] for data in (train, val)]
    ours, theirs = (found[0] if len(found) == 1 else found for found in types)
    for what, one, other in (
        ("the task", train.task, val.task),
        ("inputs of shape", inputs.shapes(train.x), inputs.shapes(val.x)),
        ("inputs of type", ours, theirs),
        ("targets of shape", tuple(train.y.shape[1:]), tuple(val.y.shape[1:])),
        ("classes:", train.num_classes, val.num_classes),
    ):
        if one != other:
            raise DataError(f"the validation data have {what} {other}, what is trained on {one}; they must agree")


def _trial(net: BayesianModule, x: Inputs) -> Tensor:
    """The output for two rows of `x`."""
    output = net.trial(_two_rows(net, x))
    if not isinstance(output, Tensor):
        raise UsageError(
            f"the network must return one tensor, not {type(output).__name__}: say which by bayesian(output=...)"
        )
    return output


def _two_rows(net: BayesianModule, x: Inputs) -> Inputs:
    return inputs.moved(inputs.take(x, slice(0, 2)), net.posterior.mean)


def _stays_whole(x: ArrayLike | Inputs, net: BayesianModule) -> bool:
    """Whether the integers of one input stay integers, see the header."""
    if inputs.several(x):
        return False
    array = numeric(x, "inputs")
    if array.dtype.kind not in "iu":
        return False
    rows = torch.from_numpy(array[:2].astype(np.int64))
    rows = rows.unsqueeze(1) if rows.ndim == 1 else rows
    if array.dtype == np.uint8 and _takes(net, rows.to(net.posterior.mean.dtype)):
        return False
    return _takes(net, rows)


def _takes(net: BayesianModule, rows: Tensor) -> bool:
    try:
        _trial(net, rows)
    except IndexError:  # a token beyond an embedding's: it was taken as one
        return True
    except FAILURES:
        return False
    return True
