"""The unit as systemd has it loaded, against what the configuration needs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from edge_infer.doctor import disk, reach, unit
from edge_infer.doctor.finding import Finding
from tests.support.patients import booted, root, subject, told
from tests.support.runs import RULE, site

Look = Callable[..., dict[str, Finding]]


@pytest.fixture
def look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Look:
    """With what systemd says otherwise, and more keys of the configuration."""

    def call(said: dict[str, str] | None = None, check: Any = unit.check, **more: Any) -> dict[str, Finding]:
        config = site(tmp_path / "site", None, **more)
        folder = root(tmp_path / "root")
        monkeypatch.setenv("PATH", str(booted(folder, config, **(said or {}))), prepend=":")
        return told(check, subject(folder, config))

    return call


def troubles(found: dict[str, Finding]) -> dict[str, str]:
    return {name: one.status for name, one in found.items() if one.status != "ok"}


# nobody answers at the socket here
ASKED = {"unit.asked": "warn"}


def test_one_that_runs_is_told_in_its_own_words(look: Look) -> None:
    found = look()
    assert troubles(found) == ASKED
    assert found["unit"].found == "active: 1 of 1 stations judge, started again 0 times"


@pytest.mark.parametrize(
    ("said", "name", "status", "mend"),
    [
        ({"ActiveState": "failed", "Result": "exit-code"}, "unit", "fail", "reset-failed"),
        ({"ActiveState": "inactive"}, "unit", "warn", "sudo systemctl start edge-infer"),
        ({"UnitFileState": "disabled"}, "unit.enabled", "warn", "sudo systemctl enable edge-infer"),
        ({"NRestarts": "7"}, "unit.restarts", "warn", "journalctl -u edge-infer"),
        ({"NeedDaemonReload": "yes"}, "unit.files", "warn", "daemon-reload"),
        ({"Type": "notify-reload"}, "unit.systemd", "fail", "notify-reload.conf"),
        ({"SupplementaryGroups": "video render plugdev9"}, "unit.groups", "fail", "sudo systemd-sysusers"),
        ({"ProcSubset": "pid"}, "unit.hardening", "warn", "ProcSubset="),
        ({"LoadCredential": "mqtt:/nowhere/mqtt"}, "unit.credentials", "fail", "install -m 0600"),
    ],
)
def test_what_is_wrong_with_it_is_told_with_its_command(
    look: Look, said: dict[str, str], name: str, status: str, mend: str
) -> None:
    found = look(said)
    assert (troubles(found).keys() - ASKED) == {name}
    assert found[name].status == status
    assert mend in found[name].mend


def test_memory_that_may_not_be_executable_fails_only_where_openvino_runs(look: Look) -> None:
    found = look(
        {"MemoryDenyWriteExecute": "yes"}, models={"m": {"path": "model", "backend": {"type": "openvino"}}}
    )
    assert found["unit.hardening"].status == "fail"
    assert "onnxruntime-only.conf" in found["unit.hardening"].mend


def test_onnx_runtime_alone_may_have_it(look: Look) -> None:
    assert troubles(look({"MemoryDenyWriteExecute": "yes"})) == ASKED


def test_cameras_that_need_a_drop_in_are_told_which(look: Look) -> None:
    cameras = {"scene": {"type": "gige", "address": "10.0.0.5"}}
    found = look(cameras=cameras)
    assert found["unit.drop-ins"].status == "fail"
    assert "industrial-cameras.conf" in found["unit.drop-ins"].mend


def test_with_the_drop_in_they_are_not(look: Look) -> None:
    said = {"AmbientCapabilities": "cap_net_raw", "RestrictAddressFamilies": "AF_PACKET AF_UNIX AF_INET"}
    assert troubles(look(said, cameras={"scene": {"type": "gige", "address": "10.0.0.5"}})) == ASKED


def test_usb_cameras_behind_private_devices_are_told(look: Look) -> None:
    found = look({"PrivateDevices": "yes"}, cameras={"scene": {"type": "v4l2", "path": "/dev/video0"}})
    assert found["unit.hardening"].status == "fail"


def test_a_credential_that_nobody_gives_the_unit_is_told_with_its_line(look: Look) -> None:
    found = look(mqtt={"host": "127.0.0.1", "user": "u", "password": {"credential": "mqtt-password"}})
    assert "LoadCredential=mqtt-password:/etc/edge-infer/mqtt-password" in found["unit.credentials"].mend


def test_a_copy_that_hides_the_package_s_unit_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {unit.OWN.lstrip("/"): "[Service]\nMine=1", "lib/systemd/system/edge-infer.service": "[Service]"}
    folder = root(tmp_path, **files)
    monkeypatch.setenv("PATH", str(booted(folder, FragmentPath=unit.OWN)), prepend=":")
    found = told(unit.check, subject(folder))
    assert f"sudo rm {unit.OWN}" in found["unit.files"].mend


def test_no_systemd_and_no_unit_are_no_trouble(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert troubles(told(unit.check, subject(root(tmp_path / "a")))) == {}
    folder = root(tmp_path / "b")
    monkeypatch.setenv("PATH", str(booted(folder, LoadState="not-found")), prepend=":")
    assert troubles(told(unit.check, subject(folder))) == {}


def test_a_systemd_that_hangs_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = root(tmp_path)
    programs = booted(folder)
    (programs / "systemctl").write_text("#!/bin/sh\nexec sleep 20\n")
    monkeypatch.setenv("PATH", str(programs), prepend=":")
    assert "does not answer within" in told(unit.check, subject(folder))["unit"].found


def test_addresses_that_the_unit_drops_are_told_with_the_line_that_lets_them_through(look: Look) -> None:
    cameras = {
        "scene": {"type": "rtsp", "url": "rtsp://203.0.113.7/s"},
        "inside": {"type": "rtsp", "url": "rtsp://192.168.4.7/s"},
    }
    found = look(
        check=reach.check, mqtt={"host": "198.51.100.2"}, cameras=cameras,
        stations={name: {"camera": name, "model": "m", "rules": [RULE]} for name in cameras},
    )  # fmt: skip
    assert troubles(found) == {"reach.mqtt": "fail", "reach.cameras.scene": "fail"}
    assert "IPAddressAllow=198.51.100.2" in found["reach.mqtt"].mend


def test_a_name_server_that_the_unit_drops_is_told(look: Look, tmp_path: Path) -> None:
    (tmp_path / "root/etc").mkdir(parents=True)
    found = look(check=reach.check, mqtt={"host": "broker.invalid"})
    assert troubles(found) == {}
    (tmp_path / "root/etc/resolv.conf").write_text("nameserver 9.9.9.9\n")
    found = told(reach.check, subject(tmp_path / "root", tmp_path / "site/site.yaml"))
    assert "IPAddressAllow=9.9.9.9" in found["reach.names"].mend


def test_a_unit_that_denies_nothing_is_not_asked(look: Look) -> None:
    assert look({"IPAddressDeny": ""}, check=reach.check, mqtt={"host": "198.51.100.2"}) == {}


def test_the_folder_that_systemd_makes_for_it_needs_no_permission_of_ours(look: Look) -> None:
    assert "chown" not in "".join(one.mend for one in look(check=disk.check).values())
