"""Who works on what: a study's items in Optuna's storage, each taken by one worker at a time.

A trial is an attempt at an item (`item` among its attributes). An item's owner is the first of its trials that is not
lost; a trial is lost when its worker died (Optuna's heartbeat, or, on this machine, a process that is no more) or gave
it back, and so has failed without an outcome. An item without an owner gets a new trial, which goes on from the
checkpoint in the item's folder. Owners alone are taken, by Optuna's change from WAITING to RUNNING, which succeeds for
one worker only; so two workers may offer the same item at the same moment, and it is still done once. A result is
told to the owner: a worker that was taken for dead and comes back finds its trial failed, and its result is dropped.
"""

from __future__ import annotations

import contextlib
import os
import random
import time
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from posterity.core.randomness import derive
from posterity.experiments.database import open_storage, patiently
from posterity.experiments.liveness import Heartbeat, is_dead, this_worker
from posterity.experiments.row import BAD, FAILED, FINISHED, PRUNED, RUNNING, WAITING
from posterity.experiments.study import Study

if TYPE_CHECKING:
    import optuna
    from optuna.trial import FrozenTrial

ITEM, OUTCOME, WORKER, GIVEN_BACK = "item", "outcome", "worker", "given back"
HEARTBEAT, GRACE = 10, 60  # seconds between signs of life, and without one until a worker is taken for dead
DEATHS = 10  # of workers, after which an item is to blame
AHEAD = 16  # of the items that nobody has, one of so many is taken: workers that start together rarely want the same


@dataclass(frozen=True)
class Outcome:
    """What came of an item."""

    state: str
    metrics: Mapping[str, float]
    error: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {"state": self.state, "metrics": dict(self.metrics), "error": self.error}


@dataclass(frozen=True)
class Lease:
    """An item that this worker has: its key, and Optuna's trial."""

    key: str
    trial: optuna.Trial


class Leases:
    """The items of a study in a storage; one object a worker."""

    def __init__(self, study: Study, url: str, *, heartbeat: int = HEARTBEAT, grace: int = GRACE) -> None:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self.study, self.keys = study, list(study.items)
        self._optuna = optuna
        self._storage = patiently(lambda: open_storage(url, heartbeat, grace))
        direction: Any = "minimize" if study.lowest else "maximize"
        name = f"{study.name}-{study.digest}"
        self._trials = patiently(
            lambda: optuna.create_study(
                storage=self._storage, study_name=name, direction=direction, load_if_exists=True, pruner=self._pruner()
            )
        )
        self._random = random.Random(os.urandom(8))
        self._worker = this_worker()
        self._heartbeat, self._asked = heartbeat, 0.0  # when Optuna was last asked for the dead
        self._life = Heartbeat(self._storage, heartbeat)

    def close(self) -> None:
        """No more signs of life; connections are closed."""
        self._life.stop()
        self._storage.remove_session()
        self._storage.engine.dispose()

    # Taking items

    def take(self) -> Lease | None:
        """An item that is this worker's until it is told or given back; None where there is none to take now."""
        while True:
            owners, lost = self._owners()
            waiting = [key for key in self.keys if key in owners and owners[key].state.name == "WAITING"]
            missing = [key for key in self.keys if key not in owners]
            # What another has just offered it is about to claim: rather a new one.
            free = [key for key in waiting if self._is_free(owners[key])] or ([] if missing else waiting)
            if free:
                lease = self._claim(free[0], owners[free[0]])
                if lease is not None:
                    return lease
            elif missing:
                alone = all(owner.state.is_finished() for owner in owners.values())
                self._offer(missing[0] if alone else self._random.choice(missing[:AHEAD]), lost)
            else:
                return None

    def _is_free(self, trial: FrozenTrial) -> bool:
        """Whether it was offered by this worker, or by one that did not live to claim it."""
        return trial.user_attrs[WORKER] == self._worker or is_dead(trial.user_attrs[WORKER])

    def _claim(self, key: str, trial: FrozenTrial) -> Lease | None:
        """Mark a waiting trial as this worker's; None if another was faster.

        A sign of life comes first: without any Optuna never takes a trial for dead.
        """
        number = trial._trial_id
        try:
            patiently(lambda: self._storage.record_heartbeat(number))
            if not patiently(lambda: self._storage.set_trial_state_values(number, self._state("RUNNING"))):
                return None
            if trial.user_attrs[WORKER] != self._worker:
                patiently(lambda: self._storage.set_trial_user_attr(number, WORKER, self._worker))
        except self._optuna.exceptions.UpdateFinishedTrialError:
            return None
        self._life.of(number)
        self._trials.sampler = self._sampler(key)
        return Lease(key, self._optuna.Trial(self._trials, number))

    def _offer(self, key: str, lost: Mapping[str, list[FrozenTrial]]) -> None:
        """A new trial for an item that nobody has, with the values of the one that was lost."""
        before = lost.get(key, [])
        if sum(GIVEN_BACK not in trial.user_attrs for trial in before) < DEATHS:
            values = next((trial.params for trial in reversed(before) if trial.params), {})
            patiently(lambda: self._trials.enqueue_trial(values, user_attrs={ITEM: key, WORKER: self._worker}))
            return
        outcome = Outcome(FAILED, {}, f"{DEATHS} workers died of it")
        failed = self._optuna.trial.create_trial(
            state=self._state("FAIL"), user_attrs={ITEM: key, OUTCOME: outcome.as_dict()}
        )
        patiently(lambda: self._trials.add_trial(failed))

    def is_over(self) -> bool:
        """Whether each item has its outcome."""
        owners, _ = self._owners()
        return all(key in owners and owners[key].state.is_finished() for key in self.keys)

    # Letting them go

    def tell(self, lease: Lease, outcome: Outcome, value: float | None = None) -> bool:
        """Record what came of an item; False if it was another worker's by now, and nothing was recorded."""
        self._life.of(None)
        state = {FINISHED: "COMPLETE", PRUNED: "PRUNED"}.get(outcome.state, "FAIL")
        values = (0.0 if value is None else value) if state == "COMPLETE" else None
        number = lease.trial._trial_id
        try:
            patiently(lambda: lease.trial.set_user_attr(OUTCOME, outcome.as_dict()))
            patiently(lambda: self._trials.tell(lease.trial, values, state=self._state(state)))
        except (self._optuna.exceptions.UpdateFinishedTrialError, ValueError):
            # Ours after all, if the storage answered too late and was asked again.
            kept = patiently(lambda: self._storage.get_trial(number))
            return kept.state == self._state(state) and kept.user_attrs.get(OUTCOME) == outcome.as_dict()
        return True

    def give_back(self, lease: Lease) -> None:
        """Let another have the item, to go on from where it is."""
        self._life.of(None)
        with contextlib.suppress(self._optuna.exceptions.UpdateFinishedTrialError, ValueError):
            patiently(lambda: lease.trial.set_user_attr(GIVEN_BACK, True))
            patiently(lambda: self._trials.tell(lease.trial, state=self._state("FAIL")))

    # Looking

    def outcomes(self) -> dict[str, tuple[Outcome, Mapping[str, Any]]]:
        """By key the outcome, or the state, of each item, with the values that a search suggested for it."""
        owners, _ = self._owners(bury=False)
        found: dict[str, tuple[Outcome, Mapping[str, Any]]] = {}
        for key in self.keys:
            trial = owners.get(key)
            kept = trial.user_attrs.get(OUTCOME) if trial is not None and trial.state.is_finished() else None
            state = RUNNING if trial is not None and trial.state.name == "RUNNING" else WAITING
            found[key] = (Outcome(**kept) if kept else Outcome(state, {}), trial.params if trial is not None else {})
        return found

    def trials(self) -> list[FrozenTrial]:
        """All attempts, as Optuna has them."""
        return patiently(lambda: self._trials.get_trials(deepcopy=False))

    def fixed(self, values: Mapping[str, Any]) -> Any:
        """A trial that suggests these values again."""
        return self._optuna.trial.FixedTrial(dict(values))

    def _owners(self, *, bury: bool = True) -> tuple[dict[str, FrozenTrial], dict[str, list[FrozenTrial]]]:
        """By key the trial that has the item, and those that have lost it."""
        trials = self.trials()
        if bury and self._bury(trials):
            trials = self.trials()
        owners: dict[str, FrozenTrial] = {}
        lost: dict[str, list[FrozenTrial]] = {}
        for trial in trials:
            key = trial.user_attrs.get(ITEM)
            if key is None:
                continue
            if trial.state.name == "FAIL" and trial.user_attrs.get(OUTCOME, {}).get("state") not in BAD:
                lost.setdefault(key, []).append(trial)
            else:
                owners.setdefault(key, trial)
        return owners, lost

    def _bury(self, trials: Iterable[FrozenTrial]) -> bool:
        """Fail the trials of workers that are dead; whether there may have been any."""
        running = [trial for trial in trials if trial.state.name == "RUNNING"]
        dead = [trial.number for trial in running if is_dead(str(trial.user_attrs.get(WORKER, "")))]
        for number in dead:
            with contextlib.suppress(self._optuna.exceptions.UpdateFinishedTrialError, ValueError):
                patiently(partial(self._trials.tell, number, state=self._state("FAIL")))
        asked = time.monotonic() - self._asked > self._heartbeat / 2
        if asked and running:
            self._asked = time.monotonic()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", self._optuna.exceptions.ExperimentalWarning)
                patiently(lambda: self._optuna.storages.fail_stale_trials(self._trials))
        return bool(dead) or (asked and bool(running))

    def _state(self, name: str) -> optuna.trial.TrialState:
        return self._optuna.trial.TrialState[name]

    def _sampler(self, key: str) -> optuna.samplers.BaseSampler:
        """Each place of a search has random numbers of its own, whoever takes it."""
        if not self.study.adaptive:
            return self._optuna.samplers.RandomSampler()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", self._optuna.exceptions.ExperimentalWarning)
            seed = derive(self.study.seed, f"search {key}") % 2**32
            # Places that others are at count as bad ones, so that workers do not all try the same.
            return self._optuna.samplers.TPESampler(seed=seed, constant_liar=True)

    def _pruner(self) -> optuna.pruners.BasePruner:
        pruners = self._optuna.pruners
        kinds: dict[str | None, Callable[[], optuna.pruners.BasePruner]] = {
            None: pruners.NopPruner,
            "median": pruners.MedianPruner,
            "hyperband": pruners.HyperbandPruner,
        }
        return kinds[self.study.prune]()
