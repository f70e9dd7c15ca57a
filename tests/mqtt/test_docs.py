from __future__ import annotations

import re
from pathlib import Path

from tests.support.mosquitto import Mosquitto
from tests.support.publishers import PREFIX, device
from tests.support.results import result
from tests.support.subscriber import subscribed

DOC = Path(__file__).parents[2] / "docs" / "mqtt.md"


def test_the_access_rights_in_the_documentation_are_enough(tmp_path: Path) -> None:
    rights = re.findall(r"^pattern .*$", DOC.read_text(), re.MULTILINE)
    assert len(rights) == 4
    # the broker's name for the user is the device's
    acl = "\n".join([*rights, "user watcher", "topic readwrite #", ""])
    users = {"ipc7": "p", "watcher": "w"}
    with Mosquitto(tmp_path / "mosquitto", users=users, acl=acl) as broker:
        broker.user, broker.password = "watcher", "w"
        with subscribed(broker, f"{PREFIX}/#") as subscriber:
            broker.user, broker.password = "ipc7", "p"
            with device(broker, tmp_path / "outbox") as one:
                one.put(result())
                one.publisher.event("x", {})
                for topic in ("status", "result", "event"):
                    subscriber.wait_on(topic)
                one.delivered()
                assert one.publisher.stats.refused == 0
