"""Optuna's storage of a study: its address, how it is opened, and patience with it.

SQLite must take its lock when a transaction begins: otherwise two workers both read that a trial is WAITING, and both
write that it is RUNNING; and a reader that becomes a writer may be refused at once, however long the timeout.
"""

from __future__ import annotations

import random
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from posterity.core.errors import PosterityError, UsageError

if TYPE_CHECKING:
    from optuna.storages import RDBStorage

PATIENCE = 120.0  # seconds for which a storage that is busy or away is asked again
T = TypeVar("T")


def storage_url(storage: str | None, out: Path) -> str:
    """The storage's address: SQLite in the study's folder by default; PostgreSQL by the driver that is installed."""
    if storage is None:
        return f"sqlite:///{(out.resolve() / 'study.db').as_posix()}".replace("{", "{{").replace("}", "}}")
    kind, colon, rest = storage.partition("://")
    if not colon:
        raise UsageError(f"a storage is an address such as postgresql://user@host/database, not '{storage}'")
    return f"postgresql+psycopg://{rest}" if kind in ("postgresql", "postgres") else storage


def open_storage(url: str, heartbeat: int, grace: int) -> RDBStorage:
    """The storage at `url`, with so many seconds between signs of life, and without one until a worker is dead."""
    from optuna.exceptions import ExperimentalWarning
    from optuna.storages import RDBStorage
    from sqlalchemy import event
    from sqlalchemy.exc import ArgumentError

    sqlite = url.startswith("sqlite")
    options: dict[str, Any] = {"connect_args": {"timeout": PATIENCE}} if sqlite else {"pool_pre_ping": True}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExperimentalWarning)
        try:
            storage = RDBStorage(url, engine_kwargs=options, heartbeat_interval=heartbeat, grace_period=grace)
        except ImportError as error:
            raise UsageError(f"{error} For PostgreSQL: pip install 'posterity[postgres]'") from error
        except ArgumentError as error:
            raise UsageError(f"a storage is an address such as postgresql://user@host/database: {error}") from error
    if sqlite:
        storage.engine.dispose()
        event.listen(storage.engine, "connect", _leave_begin_to_us)
        event.listen(storage.engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN IMMEDIATE"))
    return storage


def _leave_begin_to_us(connection: Any, _: Any) -> None:
    connection.isolation_level = None
    # Only a power cut can lose the last commits, and what they told is still in the items' folders.
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=NORMAL")


def patiently(call: Callable[[], T]) -> T:
    """The call's result; asked again while the storage is busy, being made by another worker, or away for a moment."""
    from optuna.exceptions import StorageInternalError
    from sqlalchemy.exc import DBAPIError

    limit, pause = time.monotonic() + PATIENCE, 0.05
    while True:
        try:
            return call()
        except (DBAPIError, StorageInternalError) as error:
            if time.monotonic() > limit or "password" in str(error):
                cause = error.__cause__ or error
                raise PosterityError(f"the study's storage does not answer: {cause}") from error
        time.sleep(pause * random.uniform(0.5, 1.5))
        pause = min(2 * pause, 2.0)
