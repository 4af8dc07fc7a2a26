"""Data that a process keeps between runs, while it is told to: a worker of a sweep reads a data set once."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

MOST = 6  # of what was last used: the rows as read, standardised ones, test data, of two sets
T = TypeVar("T")

_stores: list[OrderedDict[Hashable, Any]] = []


@contextmanager
def keep_data() -> Iterator[None]:
    """While open, what runs read is kept for those that follow."""
    _stores.append(OrderedDict())
    try:
        yield
    finally:
        _stores.pop()


def kept(key: Hashable, make: Callable[[], T]) -> T:
    """What was made for this key, or what `make` makes of it now."""
    if not _stores:
        return make()
    store = _stores[-1]
    found: T = store[key] if key in store else make()
    store[key] = found
    store.move_to_end(key)
    while len(store) > MOST:
        store.popitem(last=False)
    return found
