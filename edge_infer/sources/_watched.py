"""A folder into which somebody puts pictures, for ever."""

from __future__ import annotations

import logging
import os
import select
import stat
import threading
import time
from collections import deque
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from edge_infer.errors import PictureError, SourceError, SourceStalledError
from edge_infer.frame import Frame, PartTrigger
from edge_infer.sources._inotify import Closings
from edge_infer.sources._judged import Journal, Version
from edge_infer.sources._put_away import move
from edge_infer.sources._recording import PICTURES, natural
from edge_infer.sources._watched_folder import (
    prepare,
    unanswered,
    vanished,
    wait_for_the_one_before,
)

if TYPE_CHECKING:
    from edge_infer.sources.files import Files

log = logging.getLogger(__name__)

OPEN_S = 5.0
"""How long a folder may take to answer at first."""
SETTLE_S = 5.0
"""A file that nobody wrote to for so long is as it will stay."""
UNSETTLED = 64
"""Pictures that were given and have no stored result yet; the next ones wait in the folder."""
LOOK_S = 0.2
"""How often a file that may still be written is looked at."""
SCAN_S = 1.0
"""How often the whole folder is: network folders tell of nothing."""
SHARE = 0.05
"""Of one core that looking at a large folder may take."""
HANG_S = 60.0
"""A folder that does not answer one question for so long is lost; a large picture may come slowly."""
CLOSED_S = 10.0
"""After `close`: how long results that are still being stored are waited for, in the background."""


class _Seen(NamedTuple):
    version: Version
    since_s: float
    """Unchanged."""
    closed: bool = False
    """Its writer has closed it."""
    half: bool = False
    """It was looked at and does not reach its end."""


class Watched:
    """Gives each picture once it is complete, remembers it once its results are stored (a Source).

    One thread does all that touches the folder, which may be on a network and hang.
    """

    def __init__(self, settings: Files, camera: str) -> None:
        self._settings = settings
        self._camera = camera
        wait_for_the_one_before(settings, camera, OPEN_S)
        self._changed = threading.Condition()
        self._ready: deque[Frame] = deque()
        self._given: dict[str, Version] = {}
        self._settled: deque[tuple[str, Version, bool]] = deque()
        self._opened = self._closed = self._over = False
        self._failure: SourceError | None = None
        self._seq = 0
        self._last_s = 0.0
        self._seen: dict[str, _Seen] = {}
        self._queue: deque[str] = deque()
        """Names that a scan found, in natural order."""
        self._asked_s: float | None = None
        """When (monotonic) the folder was asked what it has not answered yet."""
        self._wake_read, self._wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._thread = threading.Thread(target=self._run, name=f"watch-{camera}", daemon=True)
        self._thread.start()
        with self._changed:
            if self._changed.wait_for(lambda: self._opened or self._failure, OPEN_S) and self._opened:
                return
            self._closed = True
            failure = self._failure
        self._wake()
        raise failure or unanswered(settings, camera, self._thread, f"did not answer within {OPEN_S:g} s")

    def read(self, timeout_s: float) -> Frame | None:
        """The next picture, see Source; never None."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._ready or self._failure, timeout_s)
            if self._closed:
                raise SourceError(f"camera {self._camera} is closed")
            if self._ready:
                frame = self._ready.popleft()
                self._wake()
                return frame
            if self._failure is not None:
                raise SourceError(self._failure.message, hint=self._failure.hint)
            asked_s, now_s = self._asked_s, time.monotonic()
            if asked_s is not None and now_s - asked_s > HANG_S:
                how = f"has not answered for {now_s - asked_s:.1f} s"
                raise unanswered(self._settings, self._camera, self._thread, how)
            if len(self._given) >= UNSETTLED:
                raise SourceStalledError(
                    f"camera {self._camera}: {UNSETTLED} pictures wait for their results"
                )
        raise SourceStalledError(f"camera {self._camera}: no new picture in {self._settings.path}")

    def close(self) -> None:
        """Give nothing more; what is being judged is still remembered once its results are stored."""
        with self._changed:
            if self._closed:
                return
            self._closed = True
            for frame in self._ready:
                # nobody took it
                self._given.pop(str(frame.name and Path(frame.name).name), None)
            self._ready.clear()
            self._changed.notify_all()
        self._wake()

    def _settle(self, name: str, version: Version, well: bool, _station: str) -> None:
        """Any thread, at once: its results are stored."""
        with self._changed:
            self._settled.append((name, version, well))
        self._wake()

    def _wake(self) -> None:
        with self._changed:
            if not self._over:
                # a full pipe wakes as well
                with suppress(BlockingIOError):
                    os.write(self._wake_write, b"\0")

    # -- the thread

    def _run(self) -> None:
        try:
            self._watch()
        except SourceError as error:
            self._fail(error)
        except OSError as error:
            self._fail(vanished(self._settings, self._camera, error))
        except Exception as error:  # a bug: the reader must hear of it instead of waiting for ever
            log.exception("camera %s: a bug in its watched folder", self._camera)
            self._fail(SourceError(f"camera {self._camera}: a bug: {type(error).__name__}: {error}"))
        finally:
            with self._changed:
                self._over = True
                os.close(self._wake_read)
                os.close(self._wake_write)

    def _fail(self, error: SourceError) -> None:
        with self._changed:
            self._failure = error
            self._changed.notify_all()

    def _ask(self) -> None:
        """The folder is asked something: whoever reads sees how long it takes."""
        self._asked_s = time.monotonic()

    def _watch(self) -> None:
        folder = self._settings.path
        self._ask()
        prepare(self._settings, self._camera)
        closings: Closings | None = None
        try:
            # before the first look: what is closed in between is heard of
            closings = Closings(folder)
        except OSError as error:
            log.warning("camera %s: new pictures are noticed late: no inotify (%s)", self._camera, error)
        self._journal = Journal(folder, self._camera)
        try:
            with self._changed:
                self._opened = True
                self._changed.notify_all()
            self._look_on(closings)
        finally:
            if closings is not None:
                closings.close()

    def _look_on(self, closings: Closings | None) -> None:
        scan_s = end_s = 0.0
        poll = select.poll()
        poll.register(self._wake_read, select.POLLIN)
        if closings is not None:
            poll.register(closings.handle, select.POLLIN)
        gone: OSError | None = None
        while True:
            self._remember()
            now_s = time.monotonic()
            if self._closed:
                end_s = end_s or now_s + CLOSED_S
                if not self._given or now_s >= end_s:
                    return
                self._sleep(poll, end_s - now_s)
                continue
            try:
                for name in closings.take() if closings is not None else ():
                    self._consider(name, closed=True)
                if now_s >= scan_s and not self._queue:
                    scan_s = now_s + SCAN_S
                    self._scan()
                    scan_s = now_s + max(SCAN_S, (time.monotonic() - now_s) / SHARE)
                self._work_through()
                gone = None
            except OSError as error:
                gone = error
            if gone is not None and not self._given:
                # until then they would be given again
                raise gone
            self._sleep(poll, LOOK_S if self._seen or self._queue else scan_s - time.monotonic())

    def _sleep(self, poll: select.poll, wait_s: float) -> None:
        self._asked_s = None
        poll.poll(max(0.0, wait_s) * 1000)
        self._ask()
        with suppress(BlockingIOError):
            os.read(self._wake_read, 65_536)

    # -- what is there

    def _scan(self) -> None:
        """Of 10,000 files some 50 ms."""
        found = {}
        with os.scandir(self._settings.path) as entries:
            for entry in entries:
                self._ask()
                if self._is_picture(entry.name) and entry.is_file(follow_symlinks=False):
                    found[entry.name] = entry
        self._journal.forget_all_but(set(found))
        for name in [name for name in self._seen if name not in found]:
            del self._seen[name]
        new = [name for name in found if name not in self._seen and not self._is_known(name)]
        self._queue.extend(sorted(new, key=lambda name: natural(Path(name))))

    def _work_through(self) -> None:
        """Files that may still be written, then the next of those that a scan found."""
        for name in list(self._seen):
            if not self._has_room:
                return
            self._consider(name, closed=False)
        while self._queue and self._has_room:
            self._consider(self._queue.popleft(), closed=False)

    @property
    def _has_room(self) -> bool:
        return not self._ready and len(self._given) < UNSETTLED and not self._closed

    @staticmethod
    def _is_picture(name: str) -> bool:
        return not name.startswith((".", "~")) and os.path.splitext(name)[1].lower() in PICTURES  # noqa: PTH122 - of each name, often

    def _is_known(self, name: str) -> bool:
        version = self._version(name)
        return version is None or version == self._given.get(name) or self._journal.knows(name, version)

    def _version(self, name: str) -> Version | None:
        self._ask()
        try:
            status = (self._settings.path / name).lstat()
        except FileNotFoundError:
            return None
        return Version(status.st_mtime_ns, status.st_size) if stat.S_ISREG(status.st_mode) else None

    def _consider(self, name: str, *, closed: bool) -> None:
        """Give it if it is complete and there is room, else look again later."""
        version = self._version(name) if self._is_picture(name) else None
        if version is None or self._journal.knows(name, version) or self._given.get(name) == version:
            self._seen.pop(name, None)
            return
        now_s = time.monotonic()
        seen = self._seen.get(name)
        if seen is None or seen.version != version:
            seen = _Seen(version, now_s)
        if closed and not seen.closed:
            seen = seen._replace(closed=True, half=False)
        self._seen[name] = seen
        settled = now_s - seen.since_s >= (self._settings.settle_s or SETTLE_S)
        if not self._has_room or name in self._given or (seen.half and not settled):
            return
        data = self._whole(name, version, closed=seen.closed, settled=settled)
        if data is None:
            self._seen[name] = seen._replace(half=True)
            return
        del self._seen[name]
        self._give(name, version, data)

    def _whole(self, name: str, version: Version, *, closed: bool, settled: bool) -> bytes | None:
        """The file's content where it is complete; None while it may still be written.

        Empty for a file that cannot be read: it was put there, so it is answered.
        """
        from edge_infer.picture import reaches_its_end

        self._ask()
        try:
            handle = os.open(self._settings.path / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            with os.fdopen(handle, "rb") as file:
                data = file.read()
        except OSError as error:
            if isinstance(error, FileNotFoundError) or not self._settings.path.is_dir() or not settled:
                return None
            log.error("camera %s: cannot read %s: %s", self._camera, name, error)
            return b""
        if len(data) != version.size_bytes or self._version(name) != version:
            return None
        # a writer that closes may go on: only what tells by itself that it is whole is believed at once
        ends = reaches_its_end(data)
        return data if settled or (data and (ends or (ends is None and closed))) else None

    def _give(self, name: str, version: Version, data: bytes) -> None:
        from edge_infer import picture

        path = str(self._settings.path / name)
        damaged = None
        try:
            pixels = picture.decode(data, path).pixels
        except PictureError as error:
            # it was put there, so it is answered
            pixels, damaged = np.zeros((32, 32, 3), np.uint8), str(error)
            pixels.flags.writeable = False
        if self._version(name) != version:
            return
        self._seq += 1
        self._last_s = max(time.monotonic(), self._last_s + 1e-6)
        at = datetime.now(UTC)
        part = os.fsencode(name).decode("utf-8", "replace")
        frame = Frame(
            camera=self._camera,
            seq=self._seq,
            pixels=pixels,
            time_s=self._last_s,
            captured_at=at,
            triggers=(PartTrigger(self._last_s, at, part_id=part),),
            damaged=damaged,
            name=path,
            settled=partial(self._settle, name, version, damaged is None),
        )
        with self._changed:
            if self._closed:
                return
            self._given[name] = version
            self._ready.append(frame)
            self._changed.notify_all()

    # -- what was judged

    def _remember(self) -> None:
        """Move, or write down, what has its results stored."""
        done: dict[str, Version] = {}
        while self._settled:
            name, version, well = self._settled.popleft()
            if self._given.get(name) != version:
                continue
            folder = self._settings.done if well else self._settings.failed
            if folder is None or not self._moved(name, version, folder):
                done[name] = version
            else:
                with self._changed:
                    del self._given[name]
        if not done:
            return
        try:
            self._journal.add(done)
        except OSError as error:
            log.error(
                "camera %s: cannot write down what was judged, after a restart it is judged again: %s",
                self._camera, error,
            )  # fmt: skip
        with self._changed:
            for name in done:
                del self._given[name]

    def _moved(self, name: str, version: Version, folder: Path) -> bool:
        """False where it must be remembered instead; True too where somebody took it away."""
        path = self._settings.path / name
        try:
            if self._version(name) == version:
                move(path, folder)
        except OSError as error:
            log.error("camera %s: cannot move %s to %s: %s", self._camera, path, folder, error)
            return False
        return True
