"""The doctor beside a service that runs under a real systemd."""

from __future__ import annotations

import json

from tests.support.systemd.service import CONFIGURATION, PYTHON, Service


def told(service: Service, *words: str) -> dict[str, dict[str, str]]:
    """By name; what is no finding is a log line."""
    lines = service.command("doctor", *words, "--json").stdout.splitlines()
    return {one["check"]: one for one in (json.loads(line) for line in lines if line.startswith("{"))}


def test_it_asks_the_service_that_runs_and_takes_nothing_from_it(service: Service) -> None:
    service.configure()
    service.start()
    process = service.pid
    heard = service.subscribe()
    heard.wait(lambda got: len(got) >= 2, "/result")
    found = told(service, CONFIGURATION)
    assert found["unit"]["found"].startswith("active: 1 of 1 stations judge")
    assert found["cameras.scene"]["found"].startswith("held by the running service: connected")
    assert found["mqtt.publish"]["status"] == "ok"
    assert found["reach"]["status"] == "ok"
    assert [one for one in found.values() if one["status"] == "fail"] == []
    stranger = (
        "setpriv",
        "--reuid=65534",
        "--regid=65534",
        "--clear-groups",
        PYTHON,
        "-B",
        "-m",
        "edge_infer",
    )
    said = service.machine.ask(*stranger, "doctor", CONFIGURATION, "--json").stdout.splitlines()
    seen = {one["check"]: one for one in (json.loads(line) for line in said if line.startswith("{"))}
    # who may not ask the service takes no camera from it
    assert seen["cameras"]["mend"] == f"sudo edge-infer doctor {CONFIGURATION}"
    before = len(heard.messages("/result"))
    heard.wait(lambda got: len(got) > before, "/result")
    assert service.pid == process
    # the broker was not told that the device went away
    assert [one.json["state"] for one in heard.messages("/status")] == ["online"] * len(
        heard.messages("/status")
    )


def test_it_finds_the_credential_that_only_systemd_hands_on_and_tells_of_one_that_is_missing(
    service: Service,
) -> None:
    password = {"host": "127.0.0.1", "port": service.broker.port, "user": service.broker.user}
    service.configure(mqtt={**password, "password": {"credential": "mqtt-password"}})
    file = service.machine.root / "etc/edge-infer/mqtt-password"
    file.write_text(service.broker.password)
    file.chmod(0o600)
    service.drop_in("[Service]\nLoadCredential=mqtt-password:/etc/edge-infer/mqtt-password\n")
    found = told(service, CONFIGURATION)
    assert found["mqtt"]["status"] == found["config"]["status"] == "ok"
    assert "unit.credentials" not in found
    file.unlink()
    assert "243/CREDENTIALS" in told(service, CONFIGURATION)["unit.credentials"]["found"]


def test_it_tells_of_what_the_unit_forbids(service: Service) -> None:
    service.configure(mqtt={"host": "203.0.113.7"})
    service.drop_in("[Service]\nMemoryDenyWriteExecute=yes\nProcSubset=pid\n")
    service.machine.run("systemctl disable edge-infer")
    found = told(service, CONFIGURATION)
    service.machine.run("systemctl enable edge-infer")
    assert "IPAddressAllow=203.0.113.7" in found["reach.mqtt"]["mend"]
    assert found["unit.hardening"]["status"] == "warn"
    assert "enable edge-infer" in found["unit.enabled"]["mend"]
    assert found["unit"]["mend"].startswith("sudo systemctl start edge-infer")
