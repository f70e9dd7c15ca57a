"""The outbox's folder: one service at a time, a damaged database set aside."""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import sqlite3
import time
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from edge_infer import clock
from edge_infer.errors import OutboxError
from edge_infer.outbox.room import lacking
from edge_infer.outbox.store import NewerStoreError, Store
from edge_infer.wholefile import flush

log = logging.getLogger(__name__)

NAME = "outbox.db"
LOCK = "lock"
HOLD_S = 0.5
"""How long another process may need for a wish before it counts as a second service."""
COPY, WHOLE = f"{NAME}.copying", f"{NAME}.copy"
"""What `rescue` writes, and what that is once all of it is on the disk."""
KEPT_ASIDE = 2
"""Damaged databases kept for a person to look at; older ones are deleted."""

_DISK_TROUBLE = {errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.EIO}
# not SQLITE_ERROR: a mistake of ours in a statement must not set a healthy database aside
_DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}


class DiskUnusableError(Exception):
    """Full, read-only or broken: work goes on without it."""


class InUseError(OutboxError):
    """Another process has it."""


def damaged(error: sqlite3.Error) -> bool:
    """The file is not a database any more (as against a disk that cannot be written)."""
    return (getattr(error, "sqlite_errorcode", 0) & 0xFF) in _DAMAGED


class Folder:
    """Locked by this process from the first `open` until `close`."""

    def __init__(self, path: Path, *, fsync: bool) -> None:
        self.path = path
        self.set_aside: Path | None = None
        """The damaged database that the last `open` found."""
        self.restored = False
        """The last `open` found a database that `rescue` wrote."""
        self.replaced: Path | None = None
        """What lay in its place; renamed."""
        self._fsync = fsync
        self._lock: int | None = None
        self._expected = False
        """There was a database when this process came."""

    def open(self) -> Store:
        """DiskUnusableError where it cannot be written, OutboxError where a person must mend it."""
        self.set_aside = None
        self.hold()
        self._put_in_place()
        if odd := self._odd():
            self.put_aside(odd)
        try:
            return self._open()
        except sqlite3.Error as error:
            if not damaged(error):
                raise self._cannot_write(error) from error
            self.put_aside(str(error))
        try:
            return self._open()
        except sqlite3.Error as error:
            raise self._cannot_write(error) from error

    def put_aside(self, why: str) -> None:
        """Renames the database; DiskUnusableError where even that fails."""
        self.set_aside = aside = self._rename()
        log.error("the outbox %s is damaged (%s); set aside as %s", self.path / NAME, why, aside.name)

    def rescue(self, store: Store) -> None:
        """Write all of an open database, whose file was deleted or renamed, anew. Once that is on the disk
        the next `open` takes it, in whatever process; errors as `open`.
        """
        self.hold()
        copy = self.path / COPY
        try:
            try:
                copy.unlink(missing_ok=True)
                if (lack := lacking(self.path / NAME, store.sizes()[0])) > 0:
                    raise DiskUnusableError(f"{copy}: the disk needs {lack:,} bytes more")
                store.copy_to(copy)
                flush(copy)
                copy.rename(self.path / WHOLE)
                flush(self.path)
            except BaseException:
                with suppress(OSError):
                    copy.unlink(missing_ok=True)
                raise
        except OSError as error:
            raise DiskUnusableError(f"{copy}: {error.strerror}") from error
        except sqlite3.Error as error:
            if damaged(error):
                raise
            raise self._cannot_write(error) from error

    def _put_in_place(self) -> None:
        """What `rescue` wrote."""
        database, whole = self.path / NAME, self.path / WHOLE
        self.restored, self.replaced = False, None
        try:
            (self.path / COPY).unlink(missing_ok=True)
            if not whole.exists():
                return
            if database.exists():
                self.replaced = self._rename()
                log.error("%s was not the service's; set aside as %s", database, self.replaced.name)
            for suffix in ("-wal", "-shm"):
                # of the database that is gone; SQLite would take them for the new one's
                database.with_name(NAME + suffix).unlink(missing_ok=True)
            whole.rename(database)
            flush(self.path)
        except OSError as error:
            raise DiskUnusableError(f"{whole} cannot be put in its place: {error.strerror}") from error
        self.restored = True

    def _rename(self) -> Path:
        database = self.path / NAME
        aside = database.with_name(f"{NAME}.corrupt-{_stamp(clock.now())}")
        try:
            for suffix in ("", "-wal"):
                part = database.with_name(NAME + suffix)
                if part.exists():
                    part.rename(aside.with_name(aside.name + suffix))
            database.with_name(NAME + "-shm").unlink(missing_ok=True)
            self._expected = False
            asides = sorted(one for one in self.path.glob(f"{NAME}.corrupt-*Z") if one.is_file())
            for old in asides[:-KEPT_ASIDE]:
                for suffix in ("", "-wal"):
                    old.with_name(old.name + suffix).unlink(missing_ok=True)
        except OSError as error:
            raise DiskUnusableError(f"{database} cannot be set aside: {error}") from error
        return aside

    def close(self) -> None:
        """Another process may use it."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _odd(self) -> str | None:
        """What SQLite would fail at, or take for a new database."""
        database = self.path / NAME
        try:
            if database.is_dir():
                return "a folder lies in its place"
            return "it is empty" if database.exists() and not database.stat().st_size else None
        except OSError as error:
            raise DiskUnusableError(f"{database}: {error.strerror}") from error

    def _open(self) -> Store:
        database = self.path / NAME
        new = not database.exists()
        try:
            store = Store.on_disk(database, fsync=self._fsync)
        except sqlite3.Error:
            if new:
                # what a full disk left is no damaged database
                with suppress(OSError):
                    database.unlink()
            raise
        except OSError as error:
            raise DiskUnusableError(f"{database}: {error.strerror}") from error
        except NewerStoreError as error:
            raise OutboxError(
                f"the outbox cannot be used: {error}",
                hint="install the newer edge-infer again, or move the file away to start an empty outbox",
            ) from error
        if new and self._expected:
            store.renewed = "the database is missing: what waited in it is lost"
        self._expected = False
        self._leave_mark()
        return store

    def hold(self) -> None:
        """Nobody else may open it; errors as `open`."""
        if self._lock is not None:
            if self._is_held():
                return
            self.close()
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            lock = os.open(self.path / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            if os.geteuid() == 0:
                # root's command must not lock the service's user out
                owner = self.path.stat()
                os.fchown(lock, owner.st_uid, owner.st_gid)
        except OSError as error:
            if error.errno in _DISK_TROUBLE:
                raise DiskUnusableError(f"{self.path}: {error.strerror}") from error
            raise OutboxError(
                f"the outbox folder {self.path} cannot be used: {error.strerror}",
                hint="set state_dir to a folder that the service's user may write",
            ) from error
        until = time.monotonic() + HOLD_S
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                if time.monotonic() < until:
                    # a command holds it for moments; a lock with a time limit there is none
                    time.sleep(0.02)
                    continue
                os.close(lock)
                raise InUseError(
                    f"another edge-infer uses the outbox in {self.path}",
                    hint="stop it, or give each service its own state_dir",
                ) from error
            self._lock = lock
            self._expected = os.fstat(lock).st_size > 0
            return

    def _leave_mark(self) -> None:
        """For whoever comes after the database was deleted."""
        # on a full disk another time
        with suppress(OSError):
            if self._lock is not None and not os.fstat(self._lock).st_size:
                os.pwrite(self._lock, b"outbox.db\n", 0)

    def _is_held(self) -> bool:
        """Another file system may be mounted there meanwhile, or the folder is gone."""
        try:
            return self._lock is not None and os.path.samestat(
                os.fstat(self._lock), (self.path / LOCK).stat()
            )
        except OSError:
            return False

    def _cannot_write(self, error: sqlite3.Error) -> Exception:
        database = self.path / NAME
        try:
            read_only = bool(os.statvfs(self.path).f_flag & os.ST_RDONLY)
        except OSError as gone:
            return DiskUnusableError(f"{self.path}: {gone.strerror}")
        if database.exists() and not read_only and not os.access(database, os.W_OK):
            return OutboxError(
                f"the outbox {database} cannot be written: permission denied",
                hint=f"give it to the service's user: chown -R edge-infer {self.path}",
            )
        return DiskUnusableError(f"{database}: {error}")


def _stamp(now: datetime) -> str:
    return now.strftime("%Y%m%dT%H%M%S.%fZ")
