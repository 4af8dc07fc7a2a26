"""Data-parallel training: the loop of one process, with one sum over all processes in a step.

All ranks have the whole data, the same order of the batches and the same weights. Of a batch of n rows rank r has n_r
(training.ranks), and s_r = n_r / n. Each computes the gradient g_r of the loss L_r = nll_r + c kl of its rows, and

    buffer = sum_r [ s_r g_r | outputs of r's rows, 0 in the others' places | s_r kl_r | signals ]

is the step's one all-reduce. As the shares s_r sum to 1, sum_r s_r g_r is the gradient of nll + c kl: the KL counts
once, also where rows do not divide evenly. The outputs of all rows are what everything else in a step is computed from
(nll, score, learnt noise), by the same code and to the same bits on all ranks, as are the steps of the optimisers.
What is not finite in one rank is so in the sum, and stops all; a signal that one has got stops all after the same step.

Noise    shared   all ranks draw the same weights, those of one process: the result is its, to rounding
         own      each rank draws its own, from (seed, step, rank): the gradient's variance falls, and the result
                  depends on the number of ranks. `local` and `flipout`, whose noise is by row, need it
Modules that draw random numbers themselves (dropout) draw them from (seed, step, rank) in either case. Augmentation is
of the whole batch, and so that of one process.

Rank 0 alone reads and writes; the others begin with its state, and take over its validation and its records. Nothing in
a state depends on the number of ranks: a run is resumed on any.
"""

from __future__ import annotations

from typing import Any

import torch

from posterity.bayesian import BayesianModule
from posterity.core import inputs
from posterity.core.errors import UsageError
from posterity.core.randomness import NoiseSource, derive
from posterity.data import Batch
from posterity.objectives import Loss
from posterity.storage import EpochRecord
from posterity.training.loop import Training
from posterity.training.plan import Plan
from posterity.training.ranks import OWN, Ranks
from posterity.training.resumption import check_resumable
from posterity.training.signals import WATCHED, SignalWatch


class SpreadTraining(Training):
    """One rank's part of a training. `received` is a signal that any of the ranks has got, once all know of it."""

    def __init__(self, net: BayesianModule, plan: Plan, *, ranks: Ranks, watch: SignalWatch, **given: Any) -> None:
        super().__init__(net, plan, **given)
        self.ranks, self.watch = ranks, watch
        self.received: int | None = None

    def align(self) -> None:
        """Begin where rank 0 is, with what it has."""
        state, records = self.ranks.agree((self.state(), self.history.records) if self.ranks.leads else ({}, []))
        if self.ranks.leads:
            return
        try:
            check_resumable(self.plan, state, num_callbacks=len(self.kept_callbacks()))
        except UsageError as error:
            raise UsageError(f"process {self.ranks.rank} trains something else than the first: {error}") from error
        self.restore(state)
        self.history.records = records

    def gradient(self, batch: Batch) -> Loss:
        """The loss of the batch, and its gradient, to which each rank has contributed."""
        begin, end = self.ranks.part(len(batch.y))
        # Without rows it takes the first, with a share of 0: it draws what the others draw.
        rows = slice(begin, end) if begin < end else slice(0, 1)
        self._draw_apart()
        baseline = self.moving_baseline
        before = {} if baseline is None else baseline.state()
        own = batch.changed(lambda part: inputs.take(part, rows))
        loss = self._joined(super().gradient(own), batch, begin, end)
        if baseline is not None:  # it has seen the costs of these rows alone
            baseline.restore(before)
            baseline.next("nll", loss.nll)
            baseline.next("kl", loss.kl)
        return loss

    def _draw_apart(self) -> None:
        """What each rank draws for itself, see the header."""
        place, seed = f"{self.step}/{self.ranks.rank}", self.settings.seed
        torch.manual_seed(derive(seed, f"modules/{place}"))
        if self.settings.rank_noise == OWN:
            self.net.noise_source = NoiseSource(derive(seed, f"training/{place}"))

    def _joined(self, loss: Loss, batch: Batch, begin: int, end: int) -> Loss:
        """The loss of all rows from that of the rows `begin` to `end`; gradients become those of all rows, too."""
        share = (end - begin) / len(batch.y)
        parameters = [p for group in self.groups for p in group.parameters]
        gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters]
        outputs = loss.outputs.new_zeros(len(loss.outputs), len(batch.y), *loss.outputs.shape[2:])
        outputs[:, begin:end] = loss.outputs.detach()[:, : end - begin]
        own = 0.0 if loss.weights is None else share * loss.kl.item()  # else it is the same on all ranks
        numbers = outputs.new_tensor([own, *(self.watch.received == number for number in WATCHED)])

        scaled = (gradient.flatten() * share for gradient in gradients)
        buffer = torch.cat([*scaled, outputs.flatten(), numbers])
        self.ranks.sum(buffer)
        *parts, joined, numbers = buffer.split([*(p.numel() for p in parameters), outputs.numel(), len(numbers)])

        for parameter, gradient, part in zip(parameters, gradients, parts, strict=True):
            gradient.copy_(part.view_as(gradient))
            if parameter.grad is None and part.any():  # it is another's rows alone that use it
                parameter.grad = gradient
        signals = zip(WATCHED, numbers[1:].tolist(), strict=True)
        self.received = next((number for number, count in signals if count), None)
        with torch.no_grad():
            whole = joined.to(outputs).view_as(outputs)
            kl = loss.known_kl if loss.weights is None else numbers[0].to(loss.kl)
            kl = None if kl is None else kl.detach()
            return loss.replaced(nll=self.likelihood.nll(whole, *batch.targets), kl=kl, outputs=whole)

    def validate(self, net: BayesianModule) -> dict[str, float]:
        """Rank 0's scores."""
        return self.ranks.agree(super().validate(net) if self.ranks.leads else {})

    def _record(self) -> EpochRecord:
        """Rank 0's, as other machines may round otherwise, and schedules decide by it."""
        return self.ranks.agree(super()._record())
