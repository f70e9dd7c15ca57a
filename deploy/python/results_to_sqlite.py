"""Each result of a device into a database, once, whatever is restarted meanwhile.

    pip install edge-infer
    python results_to_sqlite.py broker.plant1.example vision/v1/plant1/l3/ipc7 results.db --tls DIR

DIR holds ca.crt, mes.crt and mes.key, made by `deploy/broker/make-broker reader FOLDER mes`.
Ends with Ctrl-C.
"""

from __future__ import annotations

import argparse
import json
import sqlite3
import sys
from pathlib import Path

from edge_infer.client import Broker, Event, Gap, Result, Status, Subscriber, Tls, Unreadable
from edge_infer.errors import EdgeInferError

TABLE = """\
CREATE TABLE IF NOT EXISTS results (
    device TEXT, stream_id TEXT, seq INTEGER,
    station TEXT, part_id TEXT, decision TEXT, created_at TEXT, json TEXT,
    PRIMARY KEY (device, stream_id, seq))
"""


def main() -> int:
    """0 after Ctrl-C, 1 where the database or the certificates cannot be used."""
    parser = argparse.ArgumentParser(description="Each result of a device into a database, once.")
    parser.add_argument("host")
    parser.add_argument("prefix", help="of the device's topics; + stands for any level")
    parser.add_argument("database", type=Path)
    parser.add_argument("--port", type=int)
    parser.add_argument("--name", default="mes", help="this reader's own name at the broker")
    parser.add_argument("--tls", type=Path, help="folder with ca.crt, NAME.crt and NAME.key")
    asked = parser.parse_args()
    tls = None
    if asked.tls is not None:
        tls = Tls(asked.tls / "ca.crt", asked.tls / f"{asked.name}.crt", asked.tls / f"{asked.name}.key")
    database = sqlite3.connect(asked.database)
    database.execute(TABLE)
    # the broker keeps what comes while this program is away; the position tells repetitions from new results
    position = asked.database.with_suffix(".position")
    broker = Broker(asked.host, asked.port, tls=tls)
    with Subscriber(broker, asked.prefix, client_id=asked.name, position=position) as subscriber:
        for message in subscriber:
            if isinstance(message, Result):
                store(database, message)
            elif isinstance(message, Gap):
                print(f"{message.station}: given up: {message.ranges} ({message.reason})", file=sys.stderr)
            elif isinstance(message, Status):
                print(f"{message.topic}: {message.state}", file=sys.stderr)
            elif isinstance(message, Event):
                print(f"{message.topic}: {message.kind} {message.data}", file=sys.stderr)
            elif isinstance(message, Unreadable):
                print(f"{message.topic}: cannot be read: {message.why}", file=sys.stderr)
            # only now, when the next one is asked for, is this one acknowledged to the broker
    return 0


def store(database: sqlite3.Connection, result: Result) -> None:
    """Durable when it returns. A crash right after it brings the same result again: the key takes it once."""
    with database:
        database.execute(
            "INSERT OR IGNORE INTO results VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (
                result.device,
                result.stream_id,
                result.seq,
                result.station,
                result.part_id,
                result.decision,
                result.created_at.isoformat(),
                json.dumps(result.raw, ensure_ascii=False),
            ),
        )


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(0)
    except (EdgeInferError, sqlite3.Error) as error:
        print(error, file=sys.stderr)
        sys.exit(1)
