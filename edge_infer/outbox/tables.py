"""The tables of the outbox's database, and how those of an older version become them."""

from __future__ import annotations

import sqlite3

VERSION = 2

_CREATE = """
-- AUTOINCREMENT: an id is never used again, so a cursor over ids misses no row
CREATE TABLE outbox (
    id INTEGER PRIMARY KEY AUTOINCREMENT, kind TEXT NOT NULL, topic TEXT NOT NULL, payload BLOB NOT NULL,
    station TEXT NOT NULL, stream_id TEXT NOT NULL, seq INTEGER NOT NULL, decision TEXT NOT NULL,
    created_s REAL NOT NULL, rank INTEGER NOT NULL, size INTEGER NOT NULL);
CREATE INDEX outbox_rank ON outbox (rank, id, size);
-- ids are those that the rows had in outbox
CREATE TABLE dead (
    id INTEGER PRIMARY KEY, kind TEXT NOT NULL, topic TEXT NOT NULL, payload BLOB NOT NULL,
    station TEXT NOT NULL, stream_id TEXT NOT NULL, seq INTEGER NOT NULL, decision TEXT NOT NULL,
    created_s REAL NOT NULL, code INTEGER NOT NULL, refusal TEXT NOT NULL, refused_s REAL NOT NULL);
CREATE TABLE gap (
    topic TEXT NOT NULL, station TEXT NOT NULL, stream_id TEXT NOT NULL, reason TEXT NOT NULL,
    first INTEGER NOT NULL, last INTEGER NOT NULL,
    PRIMARY KEY (topic, station, stream_id, reason, first)) WITHOUT ROWID;
CREATE TABLE stream (station TEXT PRIMARY KEY, stream_id TEXT NOT NULL, seq INTEGER NOT NULL);
CREATE TABLE counts (
    station TEXT PRIMARY KEY, ok INTEGER NOT NULL, nok INTEGER NOT NULL, undefined INTEGER NOT NULL,
    since TEXT);
CREATE TABLE open_trigger (
    station TEXT NOT NULL, job_id TEXT NOT NULL, part_id TEXT, received_at TEXT NOT NULL,
    PRIMARY KEY (station, job_id)) WITHOUT ROWID;
"""

_STEPS = {
    1: """
ALTER TABLE counts ADD COLUMN shift_ok INTEGER NOT NULL DEFAULT 0;
ALTER TABLE counts ADD COLUMN shift_nok INTEGER NOT NULL DEFAULT 0;
ALTER TABLE counts ADD COLUMN shift_undefined INTEGER NOT NULL DEFAULT 0;
ALTER TABLE counts ADD COLUMN shift_since TEXT;
-- one record while a process has the database open
CREATE TABLE opened (id INTEGER PRIMARY KEY CHECK (id = 1), boot TEXT NOT NULL, fsync INTEGER NOT NULL);
-- the only table that another process than the service's writes
CREATE TABLE wish (
    id INTEGER PRIMARY KEY AUTOINCREMENT, verb TEXT NOT NULL, station TEXT, refused INTEGER NOT NULL,
    waiting INTEGER NOT NULL, last INTEGER NOT NULL, until_s REAL NOT NULL, done INTEGER NOT NULL DEFAULT 0,
    on_wire INTEGER NOT NULL DEFAULT 0, answered INTEGER NOT NULL DEFAULT 0);
""",
}
"""From each version to the next."""


def prepare(db: sqlite3.Connection, version: int) -> None:
    """All or nothing: from that version (0: an empty file) to `VERSION`."""
    if version == VERSION:
        return
    steps = "".join(_STEPS[step] for step in range(max(1, version), VERSION))
    db.executescript(
        f"BEGIN IMMEDIATE;\n{'' if version else _CREATE}{steps}PRAGMA user_version = {VERSION};\nCOMMIT;"
    )
