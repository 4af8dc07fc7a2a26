"""fit: train a Bayesian network, with checkpoints and resumption if it is given a place to write."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from typing_extensions import Unpack

from posterity.bayesian import BayesianModule
from posterity.likelihoods import Likelihood, check_likelihood
from posterity.storage import RunDirectory, merge_json
from posterity.training.callbacks import Callback
from posterity.training.carry_out import CHECKPOINT_SECONDS, FitResult, carry_out
from posterity.training.diagnostics import far_data
from posterity.training.fitting_data import Data
from posterity.training.keywords import SettingsKeywords
from posterity.training.plan import plan
from posterity.training.ranks import current_ranks
from posterity.training.settings import Settings
from posterity.training.standardising import standardisation_of, standardised
from posterity.training.stored import loading_notes, summary_of, write_python_run


class TrainingWarning(UserWarning):
    """There is something to act on: in the data of a training, or in what it left, which `result.ending` and the last
    record of its history have, too.
    """


def fit(
    net: BayesianModule,
    train: Data,
    val: Data | None = None,
    *,
    likelihood: Likelihood | None = None,
    standardise: bool = False,
    out: str | Path | None = None,
    resume: bool = False,
    overwrite: bool = False,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
    progress: bool = False,
    callbacks: Sequence[Callback] = (),
    num_data: int | None = None,
    **settings: Unpack[SettingsKeywords],
) -> FitResult:
    """Train `net` on `train`; `settings` are those of `Settings`.

    `train` is a Dataset, a pair (x, y), a torch Dataset or a DataLoader; of a stream `num_data` is the number of rows.
    The likelihood follows from the task unless one is given, here or with the network. With `standardise` inputs, and
    real targets, are standardised inside: `net.predict` then takes raw inputs and answers in raw units, here and when
    it is loaded again; a network that has such a `standardisation` already keeps to it. With `out` the run
    writes history and checkpoints there (one at least every `checkpoint_seconds`), stops in good order on
    SIGINT and SIGTERM, and continues bit for bit with `resume`; with more `epochs` than before it is prolonged.
    What it warns of at its end is shown with the `progress`, else a `TrainingWarning`.
    Within `process_group` it is spread over the processes that torchrun started, of which the first writes.
    """
    known = Settings.of(**settings)
    if likelihood is not None:
        check_likelihood(likelihood)
    scale = None
    if standardise or getattr(net, "standardisation", None) is not None:
        scale = standardisation_of(train, net, likelihood)
        train = standardised(train, scale, net, likelihood)
        val = None if val is None else standardised(val, scale, net, likelihood)
    planned = plan(net, train, val, known, likelihood=likelihood, num_data=num_data)
    said = far_data(planned.train, net, planned.subject.likelihood)
    for warning in said:
        warnings.warn(warning, TrainingWarning, stacklevel=2)
    ranks = current_ranks()
    if ranks is not None and not ranks.leads:
        out, progress = None, False
    if ranks is not None and ranks.restarted and out is not None and Path(out).is_dir():
        resume, overwrite = True, False
    directory = None if out is None else RunDirectory(out, resume=resume, overwrite=overwrite)
    with ExitStack() as stack:
        if directory is not None:
            stack.enter_context(directory)
            if not directory.resume:
                write_python_run(directory.config, planned.settings)
        planned.standardise(net, scale)
        result = carry_out(
            net,
            planned,
            directory,
            callbacks=callbacks,
            checkpoint_seconds=checkpoint_seconds,
            progress=progress,
            extra=loading_notes(net, planned),
        )
        if directory is not None:
            merge_json(directory.summary, summary_of(result, planned))
    if not progress and (ranks is None or ranks.leads):  # the display has said it already
        for warning in dict.fromkeys((*result.history[-1]["warnings"], *result.ending.get("warnings", ()))):
            if warning not in said:
                warnings.warn(warning, TrainingWarning, stacklevel=2)
    return result


def _with_settings(function: Any) -> None:
    """Show the settings and their defaults among the keywords, to `help` and to notebooks."""
    known = inspect.signature(function)
    kind = inspect.Parameter.KEYWORD_ONLY
    fields = Settings.model_fields.items()
    own = [inspect.Parameter(n, kind, default=f.default, annotation=f.annotation) for n, f in fields]
    fixed = [p for p in known.parameters.values() if p.kind is not inspect.Parameter.VAR_KEYWORD]
    function.__signature__ = known.replace(parameters=[*fixed, *own])


_with_settings(fit)
