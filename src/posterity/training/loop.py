"""The training loop: minibatches, groups of weights, validation, early stopping, exact resumption.

All that the future depends on is in `state()`: weights, optimiser, generators, place in the epoch, sums of
the epoch so far, best weights, callbacks. Nothing else is: no clock, no path, no machine.
"""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils import clip_grads_with_norm_

from posterity.bayesian import BayesianModule
from posterity.core import inputs
from posterity.core.errors import NonFiniteError
from posterity.core.randomness import NoiseSource, derive, generator
from posterity.data import Batch
from posterity.metrics import brief_score
from posterity.objectives import Loss, MovingBaseline, kl_weights, learn_scale, negative_elbo
from posterity.objectives.baseline import MOVING
from posterity.storage import EpochRecord, History, network_like, network_state
from posterity.training.callbacks import Callback
from posterity.training.course import variance_of
from posterity.training.diagnostics import ADVICE, non_finite
from posterity.training.ending import end
from posterity.training.groups import step_groups
from posterity.training.plan import Plan
from posterity.training.records import record_of
from posterity.training.resumption import description

NOISE_STEPS = 20  # that a learnt noise is averaged over, at least; an epoch's, if they are more
DONE = "epochs"  # why a training stops that was not stopped before its end


class Training:
    """One training of `net` as planned, from the first step or from a restored state."""

    def __init__(
        self,
        net: BayesianModule,
        plan: Plan,
        *,
        history: History | None = None,
        callbacks: Sequence[Callback] = (),
    ) -> None:
        self.net, self.plan, self.settings = net, plan, plan.settings
        self.train, self.val, self.groups = plan.train, plan.val, plan.groups
        self.likelihood = net.likelihood = plan.subject.likelihood
        net.prior = plan.subject.prior
        self.parameters = list(net.parameters())
        self.likelihood.begin(plan.train.y)
        self.description = description(plan)
        plan.method.begin(self.groups)
        self.history = History() if history is None else history
        self.callbacks = [*callbacks, *([plan.averaging] if plan.averaging else [])]
        self.num_data = plan.subject.num_data
        self.augmentation = generator(self.settings.seed, "augmentation")
        net.noise_source = NoiseSource(derive(self.settings.seed, "training"))
        self.batches = plan.feed.batches(generator(self.settings.seed, "batches"))
        self.total_steps = self.settings.length * self.batches.num_batches
        self.course = plan.course()
        if plan.train.task == "regression":
            self.target_variance = variance_of(plan.train.y, plan.train.weight)
        self.kl_weights = kl_weights(self.batches.num_batches, self.settings.kl_decay).tolist()
        self.step = 0
        self.sums = {"rows": 0.0, "nll": 0.0, "score": 0.0}
        self.gradient_norms: dict[str, float] = {}
        self.moving_baseline = MovingBaseline() if self.settings.baseline == MOVING else None
        self.best: dict[str, Any] = {}
        self.averaged: BayesianModule | None = None  # once the training has ended (training.averaging)
        self.stopped = ""  # the reason, once there is nothing left to do
        self.ending: dict[str, Any] = {}  # what was found then: noise, spread that the ELBO wants, warnings
        self.unsettled: dict[str, Any] = {}  # the likelihood as it was before
        self._seconds_before = 0.0
        self._began = time.monotonic()

    @property
    def epoch(self) -> int:
        """Finished epochs."""
        return self.batches.epoch

    @property
    def current_epoch(self) -> int:
        """The number, from 1, of the epoch whose steps were taken last; a callback may have cut it short."""
        return self.batches.epoch + (self.batches.position > 0)

    @property
    def seconds(self) -> float:
        """Time spent on it so far, over all resumptions."""
        return self._seconds_before + time.monotonic() - self._began

    def temperature_at(self, step: int) -> float:
        """The factor on the KL in the step that follows `step` others."""
        return self.course.temperature(step / self.batches.num_batches)

    def stop(self, reason: str) -> None:
        """End the training after this step."""
        self.stopped = reason

    def train_step(self, batch: Batch) -> Loss:
        """One optimiser step on the rows of `batch`."""
        if not self.net.training:
            self.net.train()
        if self.plan.augment is not None:
            batch = batch._replace(x=self.plan.augment(batch.x, self.augmentation))
        like = self.net.posterior.mean
        batch = batch.changed(lambda part: inputs.moved(part, like))
        loss = self.gradient(batch)
        self._check_and_clip(loss)
        answers = self._answers(loss.outputs.detach())
        self._add_up(loss, answers, batch.y)
        for callback in self.callbacks:
            callback.on_step(self, loss)
        moving = self.plan.method.moving(self.groups, self.epoch, self.settings)
        step_groups(moving, self.step / self.total_steps, len(batch.y))
        self.step += 1
        share = max(2 / (self.step + 1), 2 / (max(NOISE_STEPS, self.batches.num_batches) + 1))
        self.likelihood.adapt(loss.outputs.detach(), batch.y, share, *batch.targets[1:], least=self.course.floor)
        self.course.observe(self, loss, answers, batch, share)
        for callback in self.callbacks:
            callback.on_step_end(self)
        return loss

    def gradient(self, batch: Batch) -> Loss:
        """The loss of a batch, its gradient left in the parameters."""
        for parameter in self.parameters:  # quicker than net.zero_grad(), which looks for them
            parameter.grad = None
        loss = negative_elbo(
            self.net,
            self.likelihood,
            batch.x,
            batch.y,
            num_data=self.num_data,
            samples=self.settings.samples,
            temperature=0.0 if self.plan.method.brings_prior else self.temperature_at(self.step),
            kl_weight=self.kl_weights[self.batches.position - 1],
            estimator=self.settings.estimator,
            gradient=self.settings.gradient,
            baseline=self.moving_baseline or self.settings.baseline,
            weight=batch.weight,
            with_kl=False,
        )
        loss.backward()
        return loss

    def end_epoch(self) -> EpochRecord:
        """Validate, record, and decide whether to go on."""
        self.check_weights()
        if self.settings.learn_prior:
            learn_scale(self.net)
        record = self._record()
        if self.val is not None:
            record |= {f"val_{k}": v for k, v in self.validate(self.net).items()}
            self._keep_best(record)
        self.sums = dict.fromkeys(self.sums, 0.0)
        if not self.stopped and self.epoch >= self.settings.length:
            self.stop(DONE)
        for group in self.groups:
            group.schedule.observe(record)
        for callback in self.callbacks:
            callback.on_epoch(self, record)
        self.history.append(record)
        if self.stopped:
            self._settle()
        return record

    def _settle(self) -> None:
        """What is left to do when the last step was taken, from the best weights on."""
        if self.settings.patience and self.best:
            self.net.load_state_dict(self.best["net"])
        self.unsettled = copy.deepcopy(dict(self.likelihood.state_dict()))
        nets = [net for net in (self.net, self.averaged) if net is not None]
        temperature, seed = self.temperature_at(max(self.step - 1, 0)), self.settings.seed  # the last step's
        found = end(nets, self.train, num_data=self.num_data, temperature=temperature, seed=seed)
        self.ending = {**found, "temperature": temperature}

    def validate(self, net: BayesianModule) -> dict[str, float]:
        """The scores of `net`, this training's or its average, on the validation data after this epoch."""
        assert self.val is not None
        seed = derive(self.settings.seed, f"validation/{self.epoch}")
        prediction = net.predictive(self.val.x, self.settings.val_samples, seed=seed)
        return brief_score(prediction.cpu(), self.val.y.cpu(), self.val.task)

    def state(self) -> dict[str, Any]:
        """All that the future depends on."""
        return {
            "step": self.step,
            "settings": self.settings.training_values(),
            "description": self.description,
            "data": self.plan.data_checksum,
            "net": self.net.state_dict(),
            "groups": [group.state() for group in self.groups],
            "batches": self.batches.state(),
            "augmentation": self.augmentation.get_state(),
            "noise": self.net.noise_source.state(),
            "several_uses": sorted(self.net.several_uses),
            "global_generator": torch.get_rng_state(),
            "history": len(self.history.records),
            "sums": self.sums,
            "course": self.course.state(),
            "baseline": self.moving_baseline and self.moving_baseline.state(),
            "best": self.best,
            "stopped": self.stopped,
            "ending": self.ending,
            "unsettled": self.unsettled,
            "callbacks": [callback.state() for callback in self.kept_callbacks()],
            "averaged": self.averaged and network_state(self.averaged),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from `state`, which is one of this plan's (training.resumption)."""
        self.step, self.sums, self.best = state["step"], dict(state["sums"]), state["best"]
        self.stopped = state["stopped"]
        if self.stopped == DONE and self.settings.length > state["settings"]["epochs"]:
            self.stopped = ""  # there are more epochs now
        self.net.load_state_dict(state["net"])
        self.ending, self.unsettled = state["ending"], state["unsettled"]
        if not self.stopped and self.unsettled:
            self.likelihood.load_state_dict(self.unsettled)
            self.ending, self.unsettled = {}, {}
        for group, kept in zip(self.groups, state["groups"], strict=True):
            group.restore(kept)
        self.batches.restore(state["batches"])
        self.course.restore(state.get("course", {}))
        self.augmentation.set_state(state["augmentation"])
        self.net.noise_source.restore(state["noise"])
        self.net.several_uses = set(state["several_uses"])
        torch.set_rng_state(state["global_generator"])
        self.history.restore(state["history"])
        if self.moving_baseline:
            self.moving_baseline.restore(state["baseline"])
        for callback, kept in zip(self.kept_callbacks(), state["callbacks"], strict=True):
            callback.restore(kept)
        kept = state["averaged"] if self.stopped else None
        self.averaged = kept and network_like(self.net, kept)
        self._seconds_before = self.history[-1]["seconds"] if self.history else 0.0
        self._began = time.monotonic()

    def kept_callbacks(self) -> list[Callback]:
        """Those whose state a checkpoint keeps."""
        return [callback for callback in self.callbacks if callback.kept]

    def check_weights(self) -> None:
        """Refuse to record or store weights that the last step made NaN or infinite."""
        for parameter in self.net.posterior.parameters():
            bad = (~parameter.detach().isfinite()).nonzero()
            if len(bad):
                place = self.net.layout.weight_at(self.net.posterior.weight_index(parameter, int(bad[0, -1])))
                raise NonFiniteError(f"step {self.step}: it made weights of {place} NaN or infinite. {ADVICE}")

    def _check_and_clip(self, loss: Loss) -> None:
        self.gradient_norms = {group.name: group.gradient_norm() for group in self.groups}
        norm = math.hypot(*self.gradient_norms.values())
        if not (math.isfinite(loss.nll.item()) and math.isfinite(norm)):
            raise non_finite(self.net, loss, self.step + 1)
        if self.settings.clip is not None:
            parameters = [p for group in self.groups for p in group.parameters]
            clip_grads_with_norm_(parameters, self.settings.clip, torch.tensor(norm, device="cpu"))

    @torch.no_grad()
    def _answers(self, outputs: Tensor) -> Tensor:
        """Labels, or a regression's means."""
        regression = self.train.task == "regression"
        return self.likelihood.predict(outputs).mean if regression else self.likelihood.labels(outputs)

    def _add_up(self, loss: Loss, answers: Tensor, y: Tensor) -> None:
        rows = len(y)
        self.sums["rows"] += rows
        self.sums["nll"] += loss.nll.item() * rows
        if self.train.task == "regression":
            self.sums["score"] += (answers - y).square().mean(-1).sum().item()
        else:
            right = answers == y
            self.sums["score"] += right.sum().item() * rows / right.numel()

    def _record(self) -> EpochRecord:
        return record_of(self)

    def _keep_best(self, record: EpochRecord) -> None:
        if not self.settings.patience:
            return
        if not self.best or record["val_nll"] < self.best["val_nll"]:
            weights = copy.deepcopy(dict(self.net.state_dict()))
            self.best = {"val_nll": record["val_nll"], "epoch": self.current_epoch, "net": weights}
        elif self.current_epoch - self.best["epoch"] >= self.settings.patience:
            self.stop(f"no better validation nll for {self.settings.patience} epochs")
