"""What a PLC may be told about one station, four times a second: OK only while it is known to hold.

    python plc_word.py broker.plant1.example vision/v1/plant1/l3/ipc7 filler --tls DIR

Prints a line a change; put your PLC library's write in `write`. Ends with Ctrl-C.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from edge_infer.client import Broker, Decision, Decisions, Tls
from edge_infer.errors import EdgeInferError

CYCLE_S = 0.25
WORDS = {"OK": 1, "NOK": 2, "UNDEFINED": 4}


def main() -> int:
    """0 after Ctrl-C, 1 where the certificates cannot be used."""
    parser = argparse.ArgumentParser(description="The decision of one station for a PLC.")
    parser.add_argument("host")
    parser.add_argument("prefix", help="of the device's topics")
    parser.add_argument("station")
    parser.add_argument("--port", type=int)
    parser.add_argument("--name", default="gateway", help="this reader's own name at the broker")
    parser.add_argument("--tls", type=Path, help="folder with ca.crt, NAME.crt and NAME.key")
    asked = parser.parse_args()
    tls = None
    if asked.tls is not None:
        tls = Tls(asked.tls / "ca.crt", asked.tls / f"{asked.name}.crt", asked.tls / f"{asked.name}.key")
    beat, told = 0, None
    with Decisions(Broker(asked.host, asked.port, tls=tls), asked.prefix) as decisions:
        while True:
            began_s = time.monotonic()
            decision = decisions.of(asked.prefix, asked.station)
            beat ^= 0x8000
            write(WORDS[decision.word] | beat)
            if (decision.word, decision.why) != told:
                told = decision.word, decision.why
                show(decision)
            decisions.wait(asked.prefix, asked.station, CYCLE_S)
            time.sleep(max(0.0, began_s + 0.02 - time.monotonic()))


def write(word: int) -> None:
    """To the PLC. Bit 15 beats: where it stands still for a second, the PLC must take UNDEFINED."""


def show(decision: Decision) -> None:
    """For the person in front of it."""
    print(decision.word, decision.why, flush=True)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(0)
    except EdgeInferError as error:
        print(error, file=sys.stderr)
        sys.exit(1)
