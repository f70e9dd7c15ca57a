"""The service under a real systemd, as an operator sees it: start, status, reload, stop."""

from __future__ import annotations

import json
import time

from tests.support.runs import NO_BOTTLE, whole
from tests.support.systemd.service import CONFIGURATION, Service


def line_of(service: Service, text: str) -> int:
    """Where it stands in the configuration."""
    lines = [line.strip() for line in service.configuration.splitlines()]
    return lines.index(text) + 1


def test_a_start_ends_when_the_stations_run(service: Service) -> None:
    service.configure()
    heard = service.subscribe()
    service.start()
    # at this very moment, not some time later
    assert service.show("StatusText").startswith("1 of 1 stations judge")
    status = service.systemctl("status")
    assert 'Status: "1 of 1 stations judge' in status.stdout
    heard.wait(lambda got: len(got) >= 5, "/result")


def test_a_stop_delivers_what_is_in_hand_within_its_time(service: Service) -> None:
    service.configure()
    heard = service.subscribe()
    service.start()
    heard.wait(lambda got: len(got) >= 5, "/result")
    asked_s = time.monotonic()
    service.stop()
    assert time.monotonic() - asked_s < 5
    assert (service.show("ActiveState"), service.show("Result")) == ("inactive", "success")
    heard.wait(lambda got: got[-1].json["state"] == "stopped", "/status")
    assert len(whole(heard.messages("/result"))) == 1


def test_a_reload_changes_the_rules_between_two_inspections(service: Service) -> None:
    service.configure()
    heard = service.subscribe()
    service.start()
    heard.wait(lambda got: bool(got) and got[-1].json["decision"] == "NOK", "cap/result")
    process = service.pid
    service.configure(stations={"cap": {"camera": "scene", "model": "m", "rules": [NO_BOTTLE]}})
    done = service.systemctl("reload")
    assert done.returncode == 0, done.stdout
    # already now: it returned when the outcome was known
    last = json.loads(service.command("ctl", "status", "--json").stdout)["last"]
    assert last["done"]
    assert any("rules" in key for key in last["changed"])
    heard.wait(lambda got: got[-1].json["decision"] == "OK", "cap/result")
    assert service.pid == process
    assert len(whole(heard.messages("cap/result"))) == 1


def test_a_reload_of_a_wrong_configuration_changes_nothing_and_says_where(service: Service) -> None:
    service.configure()
    heard = service.subscribe()
    service.start()
    process = service.pid
    service.write_configuration(service.configuration.replace("at_least: 1", "at_leats: 1"))
    line = line_of(service, "at_leats: 1")
    assert service.systemctl("reload").returncode != 0
    # already now: it returned when the outcome was known
    status = service.systemctl("status").stdout
    assert f"{CONFIGURATION}:{line}:" in status
    assert "at_leats" in status
    heard.wait(lambda got: any(one.json["kind"] == "configuration_refused" for one in got), "/event")
    before = len(heard.messages("/result"))
    heard.wait(lambda got: len(got) > before + 5, "/result")
    assert (service.pid, service.show("ActiveState")) == (process, "active")


def test_root_asks_the_service_over_its_socket_and_is_told_each_mistake(service: Service) -> None:
    service.configure()
    service.start()
    service.write_configuration(service.configuration.replace("at_least: 1", "at_leats: 1"))
    done = service.command("ctl", "reload")
    assert done.returncode == 78
    assert f"{CONFIGURATION}:{line_of(service, 'at_leats: 1')}:" in done.stdout
    socket = service.machine.run("find /run/edge-infer -type s -printf '%m %p'")
    assert socket.startswith("600 ")


def test_a_wrong_configuration_is_not_started_again_and_status_says_where(service: Service) -> None:
    service.configure()
    service.write_configuration(service.configuration.replace("camera: scene", "camera: scnee"))
    line = line_of(service, "camera: scnee")
    assert service.systemctl("start").returncode != 0
    # long enough for a second try
    time.sleep(3.0)
    assert (service.show("ActiveState"), service.show("NRestarts")) == ("failed", "0")
    status = service.systemctl("status").stdout
    assert "status=78" in status
    assert f"{CONFIGURATION}:{line}:" in status


def test_whether_the_clock_is_kept_is_published_though_the_kernel_may_not_be_asked(service: Service) -> None:
    service.configure()
    heard = service.subscribe()
    service.start()
    heard.wait(lambda got: len(got) >= 1, "/stats")
    assert heard.messages("/stats")[0].json["clock"]["synced"] is not None
