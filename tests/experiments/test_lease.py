"""Items in Optuna's storage: taken by one worker at a time, and again by another after its death."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from posterity.core.errors import PosterityError, UsageError
from posterity.experiments import database, lease, liveness
from posterity.experiments.database import patiently, storage_url
from posterity.experiments.lease import DEATHS, Leases, Outcome
from posterity.experiments.row import DIVERGED, FAILED, FINISHED, RUNNING, WAITING
from posterity.experiments.study import Study

STUDY = Study.of({"function": "quadratic_descent", "axes": {"lr": [0.1, 0.2, 0.3, 0.4]}})
ONE = Study.of({"function": "quadratic_descent", "axes": {"lr": [0.1]}})
DONE = Outcome(FINISHED, {"error": 0.5})


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[Callable[..., Leases]]:
    """One more worker of the study, in this process."""
    opened: list[Leases] = []

    def open_one(study: Study = STUDY, **options: int) -> Leases:
        opened.append(Leases(study, storage_url(None, tmp_path), **options))
        return opened[-1]

    yield open_one
    for each in opened:
        each.close()


def states(leases: Leases) -> list[str]:
    return [outcome.state for outcome, _ in leases.outcomes().values()]


def test_each_item_is_taken_once_and_told_once(worker):
    a, b = worker(), worker()
    taken = [owner.take() for owner in (a, b, a, b)]
    assert {each.key for each in taken} == set(STUDY.items)
    assert a.take() is None
    assert states(b) == [RUNNING] * 4
    assert not a.is_over()
    for owner, each in zip((a, b, a, b), taken, strict=True):
        assert owner.tell(each, DONE)
    assert not a.tell(taken[0], Outcome(FAILED, {}, "again"))
    assert states(b) == [FINISHED] * 4
    assert a.is_over()
    assert b.outcomes()[taken[0].key][0] == DONE


def test_many_workers_at_the_same_moment_share_the_items(worker):
    study = Study.of({"function": "quadratic_descent", "axes": {"lr": [i / 100 for i in range(1, 25)]}})
    workers = [worker(study) for _ in range(4)]

    def take_all(leases: Leases) -> list[str]:
        found = []
        while (each := leases.take()) is not None:
            found.append(each.key)
        return found

    with ThreadPoolExecutor(4) as pool:
        taken = [key for keys in pool.map(take_all, workers) for key in keys]
    assert sorted(taken) == sorted(study.items)


def test_what_is_given_back_is_taken_again(worker):
    a = worker()
    first = a.take()
    a.give_back(first)
    assert states(a) == [WAITING] * 4
    taken = {a.take().key for _ in range(4)}
    assert first.key in taken
    assert not a.tell(first, DONE)  # no longer its own


def test_bad_outcomes_are_recorded_and_not_tried_again(worker):
    a = worker()
    for state in (FAILED, DIVERGED, FINISHED, FINISHED):
        a.tell(a.take(), Outcome(state, {}, "" if state == FINISHED else "why"))
    assert a.take() is None
    assert a.is_over()
    assert sorted(states(a)) == sorted([FAILED, DIVERGED, FINISHED, FINISHED])
    assert {outcome.error for outcome, _ in a.outcomes().values()} == {"why", ""}


def test_a_worker_without_signs_of_life_is_dead_and_its_result_is_dropped(worker, monkeypatch):
    monkeypatch.setattr(lease, "is_dead", lambda worker: False)  # as on another machine
    paused, other = worker(ONE, heartbeat=1, grace=1), worker(ONE, heartbeat=1, grace=1)
    lost = paused.take()
    paused._life.of(None)
    limit = time.monotonic() + 30
    while (again := other.take()) is None:
        assert time.monotonic() < limit
        time.sleep(0.1)
    assert again.key == lost.key
    assert not paused.tell(lost, Outcome(FINISHED, {"error": 7.0}))
    assert other.tell(again, DONE)
    assert other.outcomes()[lost.key][0] == DONE


def test_signs_of_life_keep_an_item(worker, monkeypatch):
    monkeypatch.setattr(lease, "is_dead", lambda worker: False)
    a, b = worker(ONE, heartbeat=1, grace=3), worker(ONE, heartbeat=1, grace=3)
    mine = a.take()
    limit = time.monotonic() + 5
    while time.monotonic() < limit:
        assert b.take() is None
        time.sleep(0.2)
    assert a.tell(mine, DONE)


def test_a_dead_process_of_this_machine_is_known_at_once():
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    name = f"{liveness.machine()} {process.pid} {liveness.began(process.pid)}"
    assert not liveness.is_dead(name)
    assert not liveness.is_dead(liveness.this_worker())
    assert not liveness.is_dead(f"elsewhere {process.pid} 1")
    assert not liveness.is_dead("")
    process.kill()
    limit = time.monotonic() + 30
    while not liveness.is_dead(name):  # also before anybody has waited for it
        assert time.monotonic() < limit
    process.communicate()
    assert liveness.is_dead(name)
    assert liveness.is_dead(f"{liveness.machine()} {os.getpid()} 1")  # another one that has the same number now


def test_an_item_that_kills_its_workers_is_given_up(worker, monkeypatch):
    a = worker(ONE)
    monkeypatch.setattr(lease, "is_dead", lambda name: name.startswith("killed"))
    for number in range(DEATHS):
        a._worker = f"killed {number}"
        assert a.take() is not None
    assert a.take() is None
    assert a.is_over()
    ((outcome, _),) = a.outcomes().values()
    assert (outcome.state, outcome.error) == (FAILED, f"{DEATHS} workers died of it")


def test_a_search_keeps_the_values_of_what_was_lost(worker):
    axes = {"lr": {"log_uniform": [1e-3, 1.0]}, "momentum": {"uniform": [0.0, 0.9]}}
    study = Study.of({"function": "quadratic_descent", "sampler": "tpe", "metric": "factor", "axes": axes, "count": 3})
    a, b = worker(study), worker(study)
    first = a.take()
    wanted = study.suggest(first.trial)
    a.give_back(first)
    again = {each.key: study.suggest(each.trial) for each in (b.take() for _ in range(3))}
    assert again[first.key] == wanted
    assert len({item.key for item in again.values()}) == 3


def test_addresses(tmp_path):
    assert storage_url(None, tmp_path) == f"sqlite:///{tmp_path.as_posix()}/study.db"
    assert storage_url("postgresql://me@host/db", tmp_path) == "postgresql+psycopg://me@host/db"
    assert storage_url("postgresql+psycopg2://me@host/db", tmp_path) == "postgresql+psycopg2://me@host/db"
    with pytest.raises(UsageError, match="an address such as"):
        storage_url("host", tmp_path)


def test_a_storage_that_does_not_answer_is_an_error_in_the_end(monkeypatch):
    monkeypatch.setattr(database, "PATIENCE", 0.2)
    url = "postgresql+psycopg://nobody@127.0.0.1:9/none"
    with pytest.raises(PosterityError, match="does not answer"):
        patiently(lambda: database.open_storage(url, 10, 60))
