"""Signals are noted, not heeded, while a watch is open; and until the end of one of several processes that stopped."""

from __future__ import annotations

import os
import signal

import pytest

from posterity.core.errors import NonFiniteError
from posterity.training.ranks import LostError
from posterity.training.signals import WATCHED, Interrupted, SignalWatch


class Heeded(Exception):
    """The signal reached the handler that was there before the watch."""


@pytest.fixture(autouse=True)
def handlers():
    def heed(number, frame):
        raise Heeded

    before = {number: signal.signal(number, heed) for number in WATCHED}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def send(number):
    os.kill(os.getpid(), number)


@pytest.mark.parametrize("number", WATCHED)
def test_the_first_signal_is_noted_and_the_handler_comes_back(number):
    with SignalWatch(True) as watch:
        send(number)
        send(signal.SIGTERM)
    assert watch.received == number
    with pytest.raises(Heeded):
        send(number)


def test_a_second_interrupt_breaks_in_unless_the_watch_is_patient():
    with SignalWatch(True):
        send(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            send(signal.SIGINT)
    with SignalWatch(True, patient=True) as watch:
        send(signal.SIGINT)
        send(signal.SIGINT)
    assert watch.received == signal.SIGINT


@pytest.mark.parametrize(
    "error", [Interrupted(signal.SIGTERM, 3), LostError("another was lost"), NonFiniteError("NaN")]
)
def test_one_of_several_processes_that_stopped_writes_its_last_words(error):
    """torchrun sends SIGTERM to all as soon as one of them has ended."""
    with pytest.raises(type(error)), SignalWatch(True, patient=True):
        raise error
    for number in WATCHED:
        send(number)
    with SignalWatch(True):  # a script may go on, and train again
        pass
    for number in WATCHED:
        with pytest.raises(Heeded):
            send(number)


def test_another_error_brings_the_handler_back():
    with pytest.raises(ValueError, match="x"), SignalWatch(True, patient=True):
        raise ValueError("x")
    with pytest.raises(Heeded):
        send(signal.SIGTERM)
