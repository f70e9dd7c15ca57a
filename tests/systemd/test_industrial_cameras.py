"""A GigE Vision camera at an address that nobody gave it, under the unit with its drop-in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.gige_camera import GigeCamera
from tests.support.runs import NO_BOTTLE, whole
from tests.support.systemd.service import Service

DROP_IN = Path(__file__).parents[2] / "systemd/drop-ins/industrial-cameras.conf"
ADDRESS = "169.254.33.3"


@pytest.fixture
def camera(service: Service) -> Iterator[GigeCamera]:
    """Configured; the service is not started."""
    service.configure(
        cameras={
            "top": {"type": "gige", "address": ADDRESS, "pixel_format": "Mono8", "width": 320, "height": 240}
        },
        # its pictures are one even grey
        stations={"cap": {"camera": "top", "model": "m", "health": {"checks": []}, "rules": [NO_BOTTLE]}},
    )
    with service.machine.network(), GigeCamera(ADDRESS, "T33") as camera:
        yield camera


def raw_sockets(service: Service) -> int:
    """That are open in the machine."""
    return len(service.machine.run("cat /proc/net/packet").splitlines()) - 1


@pytest.mark.usefixtures("camera")
def test_its_pictures_are_judged_through_a_raw_socket(service: Service) -> None:
    service.drop_in(DROP_IN.read_text(), DROP_IN.stem)
    heard = service.subscribe()
    service.start()
    heard.wait(
        lambda got: len([one for one in got if one.json["decision"] == "OK"]) >= 10,
        "cap/result",
        timeout_s=60,
    )
    assert raw_sockets(service) == 1
    service.stop()
    whole(heard.messages("cap/result"))


@pytest.mark.usefixtures("camera")
def test_without_the_drop_in_it_is_out_of_reach_and_the_station_says_so(service: Service) -> None:
    heard = service.subscribe()
    service.start()
    heard.wait(lambda got: len(got) >= 1, "cap/result", timeout_s=60)
    (result,) = (one.json for one in heard.messages("cap/result"))
    assert (result["decision"], result["reasons"][0]["code"]) == ("UNDEFINED", "camera_lost")
    assert raw_sockets(service) == 0
