from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from edge_infer.client import Result
from tests.support.foreign_publisher import foreign_publisher
from tests.support.mosquitto import Mosquitto
from tests.support.publishers import PREFIX, device
from tests.support.results import result

DOC = Path(__file__).parents[2] / "docs/subscribers.md"
BROKER = r'Broker\("broker.plant1.example", tls=(Tls\([^)]*\)|…)\)'


class EnoughError(Exception):
    """Ends a program that runs for ever."""


def program(number: int, broker: Mosquitto, folder: Path) -> str:
    text = re.findall(r"```python\n(.*?)```", DOC.read_text(encoding="utf-8"), re.DOTALL)[number]
    ours = f'Broker("{broker.host}", {broker.port}, user="{broker.user}", password="{broker.password}")'
    changed = re.sub(BROKER, ours, str(text))
    assert changed != text
    return changed.replace("mes.position", str(folder / "position"))


def test_the_program_that_takes_each_result_once_does(mosquitto: Mosquitto, tmp_path: Path) -> None:
    stored: list[Result] = []
    noted: list[Any] = []

    def store(one: Result) -> None:
        stored.append(one)
        if one.seq == 5:
            raise EnoughError

    code = program(0, mosquitto, tmp_path)
    with foreign_publisher(mosquitto) as foreign:
        # its first run makes the session that is kept
        foreign.say(f"{PREFIX}/status", {"state": "online"}, retain=True)
        names = {"store": store, "note": noted.append}
        first = code.replace("        if isinstance", "        break\n        if isinstance")
        exec(first, dict(names))  # noqa: S102 - our own documentation
        for seq in (1, 2, 2):
            foreign.result(seq)
        foreign.gap((3, 4))
        foreign.result(5)
        with pytest.raises(EnoughError):
            exec(code, dict(names))  # noqa: S102 - our own documentation
    assert [one.seq for one in stored] == [1, 2, 5]
    assert noted == [((3, 4),)]


def test_the_program_for_a_plc_writes_the_word(mosquitto: Mosquitto, tmp_path: Path) -> None:
    with device(mosquitto, tmp_path / "outbox") as one:
        one.connected()
        words: list[int] = []

        class Plc:
            @staticmethod
            def write(word: int) -> None:
                words.append(word)
                one.publisher.decision("filler", result("filler", "OK" if 2 in words else "NOK"))
                if 1 in words:
                    raise EnoughError

        with pytest.raises(EnoughError):
            exec(program(1, mosquitto, tmp_path), {"plc": Plc})  # noqa: S102 - our own documentation
    assert list(dict.fromkeys(words)) == [4, 2, 1]
