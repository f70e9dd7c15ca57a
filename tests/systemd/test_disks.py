"""Full and read-only disks under the unit: it runs on, and says so."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.running import ForeignSubscriber
from tests.support.runs import whole
from tests.support.systemd.service import Service

BACKENDS = ("onnxruntime", "openvino")


@pytest.fixture
def disk(service: Service, request: pytest.FixtureRequest) -> Iterator[str]:
    """A partition of 32 MB where the service has a directory of its own."""
    folder = f"/var/{request.param}/private/edge-infer"
    service.machine.run(f"install -d -m 0700 {folder} && mount -t tmpfs -o size=32m,mode=0700 tmpfs {folder}")
    yield folder
    service.stop()
    service.machine.run(f"umount {folder}")


def fill(service: Service, folder: str) -> None:
    """Somebody else writes there until nothing fits any more."""
    said = service.machine.run(f"dd if=/dev/zero of={folder}/filler bs=4k", check=False)
    assert "No space left" in said


def kinds(heard: ForeignSubscriber) -> set[str]:
    return {one.json["kind"] for one in heard.messages("/event")}


@pytest.mark.parametrize("disk", ["lib"], indirect=True)
def test_a_full_disk_of_state_is_told_and_results_go_on(service: Service, disk: str) -> None:
    service.configure(evidence={"ok_every": 1, "min_free_bytes": "1MB"})
    heard = service.subscribe()
    service.start()
    heard.wait(lambda got: len(got) >= 5, "/result")
    process = service.pid
    fill(service, disk)
    heard.wait(lambda _: "outbox_in_memory" in kinds(heard), "/event", timeout_s=60)
    before = len(heard.messages("/result"))
    heard.wait(lambda got: len(got) > before + 20, "/result", timeout_s=60)
    assert "full" in service.journal or "No space left" in service.journal
    assert (service.pid, service.show("ActiveState")) == (process, "active")
    service.machine.run(f"rm {disk}/filler")
    heard.wait(lambda _: "outbox_on_disk" in kinds(heard), "/event", timeout_s=60)
    whole(heard.messages("/result"))


@pytest.mark.parametrize("disk", ["lib"], indirect=True)
def test_a_start_on_a_full_disk_of_state_judges_all_the_same(service: Service, disk: str) -> None:
    service.configure()
    fill(service, disk)
    heard = service.subscribe()
    service.start()
    heard.wait(lambda got: len(got) >= 20, "/result", timeout_s=60)
    assert "outbox_in_memory" in kinds(heard)
    whole(heard.messages("/result"))


def two_backends(service: Service) -> None:
    service.configure(
        models={name: {"path": "model", "backend": {"type": name}} for name in BACKENDS},
        stations={
            name: {
                "camera": "scene",
                "model": name,
                "rules": [{"name": "none", "count": {"labels": ["bottle"], "at_most": 0}}],
            }
            for name in BACKENDS
        },
    )


@pytest.mark.parametrize("disk", ["cache"], indirect=True)
def test_b07_a_full_cache_partition_ends_no_start_and_no_judging(service: Service, disk: str) -> None:
    two_backends(service)
    fill(service, disk)
    heard = service.subscribe()
    for _ in range(2):
        before = len(heard.messages("/result"))
        service.start()
        for name in BACKENDS:
            heard.wait(lambda got, before=before: len(got) > before, f"{name}/result", timeout_s=60)  # type: ignore[misc]
        service.stop()
        assert service.show("Result") == "success"
    assert {one.json["decision"] for one in heard.messages("/result")} == {"OK"}


def test_b09_nothing_is_written_beside_the_model_or_into_the_working_directory(service: Service) -> None:
    two_backends(service)
    listing = "find / -xdev -path /opt -prune -o -newer /run/before -type f -print"
    service.machine.run("touch /run/before")
    heard = service.subscribe()
    service.start()
    for name in BACKENDS:
        heard.wait(lambda got: len(got) >= 3, f"{name}/result", timeout_s=60)
    assert service.machine.run(f"readlink /proc/{service.pid}/cwd").strip() == "/"
    own = ("/var/lib/private/edge-infer/", "/var/cache/private/edge-infer/", "/var/log/")
    written = service.machine.run(listing).split()
    assert [one for one in written if not one.startswith(own)] == []


def test_b11_under_a_set_of_cores_nothing_is_said_of_affinity(service: Service) -> None:
    two_backends(service)
    service.drop_in("[Service]\nCPUAffinity=0\n")
    heard = service.subscribe()
    service.start()
    for name in BACKENDS:
        heard.wait(lambda got: len(got) >= 3, f"{name}/result", timeout_s=60)
    assert "affinity" not in service.journal.lower()
