"""The configurations that ran: as bytes, with who, when and hash. Survives a `kill -9` and a power cut.

``configurations/`` in the state folder: ``12.yaml`` as it was loaded, ``12.json`` about it, and
``state.json``, which says what runs and whether the operator's file was rolled back from.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Sequence
from pathlib import Path

from pydantic import AwareDatetime, ValidationError

from edge_infer import clock
from edge_infer.config.contents import Contents
from edge_infer.config.site import Site, load_site
from edge_infer.config.state_dir import state_dir_of
from edge_infer.errors import ConfigError, EdgeInferError, Mistake
from edge_infer.settings import FormatOne, Settings
from edge_infer.wholefile import flush, replacing
from edge_infer.yamlfile.reader import read_bytes

log = logging.getLogger(__name__)

FOLDER = "configurations"
KEPT = 20
"""Configurations that are kept."""
STATE = "state.json"


class Entry(Settings):
    """One configuration that ran."""

    format: FormatOne
    number: int
    """From 1, in the order in which they were loaded; in results as `internalConfigurationId.version`."""
    before: int | None
    """Which one ran before it."""
    file: str
    """The operator's file."""
    sha256: str
    """Of its bytes."""
    fingerprint: str
    """Of everything that decisions depend on."""
    contents: Contents
    loaded_at: AwareDatetime
    by: str | None
    """Who asked; None at the start of the service."""
    owner: str | None
    """Who owned the file."""


class RolledBack(Settings):
    """The operator's file does not run; an earlier version of it does."""

    number: int
    """The configuration that was left."""
    sha256: str | None
    """Of the operator's file at that time; None where it could not be read."""
    fingerprint: str | None
    """Of everything that decisions would depend on by it; None where it could not be used."""
    at: AwareDatetime
    by: str


class State(Settings):
    """What runs."""

    format: FormatOne
    running: int
    rolled_back: RolledBack | None = None


class History:
    """In the folder of the outbox, whose lock keeps other services away from changing it."""

    def __init__(self, state_dir: Path) -> None:
        self._folder = state_dir / FOLDER

    def state(self) -> State | None:
        """None before the first configuration, and where it cannot be read, which is logged."""
        path = self._folder / STATE
        try:
            return State.model_validate_json(path.read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, ValidationError) as error:
            log.error("%s cannot be read; which configuration ran is not known: %s", path, _one_line(error))
            return None

    def entry(self, number: int) -> Entry | None:
        """None where it is not kept any more or cannot be read."""
        try:
            return Entry.model_validate_json((self._folder / f"{number}.json").read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, ValidationError) as error:
            log.error("configuration %d cannot be read: %s", number, _one_line(error))
            return None

    def entries(self) -> Sequence[Entry]:
        """All that are kept, newest first."""
        found = (self.entry(number) for number in sorted(self._numbers(), reverse=True))
        return [one for one in found if one is not None]

    def stored(self, entry: Entry) -> Path:
        """Its YAML; ConfigError where that is not what was loaded."""
        path = self._folder / f"{entry.number}.yaml"
        if hashlib.sha256(read_bytes(path)).hexdigest() != entry.sha256:
            raise ConfigError([Mistake(str(path), 0, 0, "", "is not what was loaded: it was changed")])
        return path

    @property
    def next_number(self) -> int:
        """That the next one gets."""
        return max(self._numbers(), default=0) + 1

    def add(
        self,
        site: Site,
        *,
        before: int | None,
        by: str | None,
        rolled_back: RolledBack | None = None,
    ) -> Entry:
        """On disk when it returns, as what runs; EdgeInferError where it cannot be."""
        entry = Entry(
            format=1,
            number=self.next_number,
            before=before,
            file=str(site.path),
            sha256=site.sha256,
            fingerprint=site.fingerprint,
            contents=site.contents,
            loaded_at=clock.now(),
            by=by,
            owner=owner_of(site.path),
        )
        try:
            self._folder.mkdir(mode=0o700, exist_ok=True)
            self._write(f"{entry.number}.yaml", site.document.written)
            self._write(f"{entry.number}.json", _text(entry))
            self._note_running(entry.number, rolled_back)
        except OSError as error:
            # it does not run: nobody shall go back to it
            self._forget(entry.number)
            raise _unkept(self._folder, error) from error
        self._forget_old(entry)
        return entry

    def runs(self, number: int, rolled_back: RolledBack | None = None) -> None:
        """Note what runs; EdgeInferError where that cannot be stored."""
        try:
            self._note_running(number, rolled_back)
        except OSError as error:
            raise _unkept(self._folder, error) from error

    def _note_running(self, number: int, rolled_back: RolledBack | None) -> None:
        self._write(STATE, _text(State(format=1, running=number, rolled_back=rolled_back)))

    def _numbers(self) -> list[int]:
        return [int(path.stem) for path in self._folder.glob("*.json") if path.stem.isdecimal()]

    def _forget_old(self, newest: Entry) -> None:
        kept = {newest.number, newest.before, *sorted(self._numbers())[-KEPT:]}
        for number in set(self._numbers()) - kept:
            self._forget(number)

    def _forget(self, number: int) -> None:
        for suffix in (".json", ".yaml"):
            try:
                (self._folder / f"{number}{suffix}").unlink(missing_ok=True)
            except OSError as error:
                log.warning("configuration %d cannot be deleted: %s", number, error.strerror)

    def _write(self, name: str, data: bytes) -> None:
        with replacing(self._folder / name, self._folder / f".{name}.part") as file:
            file.write(data)
        flush(self._folder)


def owner_of(path: Path) -> str | None:
    """Whose file it is; None where nobody knows."""
    try:
        return path.owner()
    except (OSError, KeyError):
        return None


def sha256_of(path: Path) -> str | None:
    """Of the operator's file as it is now; None where it cannot be read."""
    try:
        return hashlib.sha256(read_bytes(path)).hexdigest()
    except ConfigError:
        return None


def as_it_is(path: Path) -> tuple[str | None, str | None]:
    """sha256 and fingerprint of the operator's file now; None for what it does not have."""
    try:
        site = load_site(path)
    except EdgeInferError:
        return sha256_of(path), None
    return site.sha256, site.fingerprint


def site_to_run(path: Path, state_dir: Path) -> Site:
    """At the start: the operator's file; what was rolled back to, as long as that file is what it was then.

    ``state_dir``: where the file does not name one. ConfigError.
    """
    wrong: ConfigError | None = None
    try:
        site = load_site(path)
    except ConfigError as error:
        wrong, site = error, None
    history = History((site.state_dir if site is not None else state_dir_of(path)) or state_dir)
    state = history.state()
    if state is None and history.next_number > 1:
        log.warning(
            "%s runs, even if it was rolled back from; edge-infer ctl status lists what ran, "
            "edge-infer ctl rollback goes back",
            path,
        )
    if state is not None and (away := state.rolled_back) is not None:
        now = (site.sha256, site.fingerprint) if site is not None else as_it_is(path)
        entry = history.entry(state.running)
        same_file = entry is not None and Path(entry.file).absolute() == path.absolute()
        if entry is not None and same_file and now == (away.sha256, away.fingerprint):
            log.warning(
                "%s does not run: %s rolled back from it at %s; configuration %d runs until it is changed",
                path, away.by, away.at.isoformat(timespec="seconds"), entry.number,
            )  # fmt: skip
            return load_site(path, stored=history.stored(entry))
    if wrong is not None or site is None:
        raise wrong or AssertionError("neither read nor wrong")
    return site


def _text(settings: Settings) -> bytes:
    return settings.model_dump_json(indent=1).encode() + b"\n"


def _one_line(error: Exception) -> str:
    if isinstance(error, ValidationError):
        return "; ".join(one["msg"] for one in error.errors(include_url=False, include_input=False))
    return str(error)


def _unkept(folder: Path, error: OSError) -> EdgeInferError:
    return EdgeInferError(
        f"the configuration cannot be kept in {folder}: {error.strerror}; nothing was changed",
        hint="is the disk full or read-only?",
    )
