"""fit: train a Bayesian network, with checkpoints and resumption if it is given a place to write."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from typing_extensions import Unpack

from posterity.bayesian import BayesianModule
from posterity.likelihoods import Likelihood
from posterity.storage import RunDirectory
from posterity.training.callbacks import Callback
from posterity.training.carry_out import CHECKPOINT_SECONDS, FitResult, carry_out
from posterity.training.keywords import SettingsKeywords
from posterity.training.plan import Data, plan
from posterity.training.ranks import current_ranks
from posterity.training.settings import Settings


def fit(
    net: BayesianModule,
    train: Data,
    val: Data | None = None,
    *,
    likelihood: Likelihood | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    overwrite: bool = False,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
    progress: bool = False,
    callbacks: Sequence[Callback] = (),
    **settings: Unpack[SettingsKeywords],
) -> FitResult:
    """Train `net` on `train`, a Dataset or a pair (x, y); `settings` are those of `Settings`.

    The likelihood follows from the task unless one is given, here or with the network. With `out` the run
    writes history and checkpoints there (one at least every `checkpoint_seconds`), stops in good order on
    SIGINT and SIGTERM, and continues bit for bit with `resume`; with more `epochs` than before it is prolonged.
    Within `process_group` it is spread over the processes that torchrun started, of which the first writes.
    """
    planned = plan(net, train, val, Settings.of(**settings), likelihood=likelihood)
    ranks = current_ranks()
    if ranks is not None and not ranks.leads:
        out, progress = None, False
    if ranks is not None and ranks.restarted and out is not None and Path(out).is_dir():
        resume, overwrite = True, False
    directory = None if out is None else RunDirectory(out, resume=resume, overwrite=overwrite)
    with ExitStack() as stack:
        if directory is not None:
            stack.enter_context(directory)
        return carry_out(
            net, planned, directory, callbacks=callbacks, checkpoint_seconds=checkpoint_seconds, progress=progress
        )


def _with_settings(function: Any) -> None:
    """Show the settings and their defaults among the keywords, to `help` and to notebooks."""
    known = inspect.signature(function)
    kind = inspect.Parameter.KEYWORD_ONLY
    fields = Settings.model_fields.items()
    own = [inspect.Parameter(n, kind, default=f.default, annotation=f.annotation) for n, f in fields]
    fixed = [p for p in known.parameters.values() if p.kind is not inspect.Parameter.VAR_KEYWORD]
    function.__signature__ = known.replace(parameters=[*fixed, *own])


_with_settings(fit)
