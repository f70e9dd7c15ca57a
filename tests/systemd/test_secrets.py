"""A secret that systemd hands over is nowhere else."""

from __future__ import annotations

from tests.support.systemd.service import Service


def test_a_credential_is_used_and_in_neither_environment_command_line_journal_nor_messages(
    service: Service,
) -> None:
    service.configure(
        mqtt={
            "host": "127.0.0.1",
            "port": service.broker.port,
            "user": service.broker.user,
            "password": {"credential": "mqtt-password"},
        }
    )
    secret = service.broker.password
    machine = service.machine
    (machine.root / "etc/edge-infer/password").unlink()
    path = machine.root / "etc/edge-infer/mqtt-password"
    path.touch(0o600)
    path.write_text(f"{secret}\n")
    service.drop_in("[Service]\nLoadCredential=mqtt-password:/etc/edge-infer/mqtt-password\n")
    heard = service.subscribe()
    service.start()
    heard.wait(lambda got: len(got) >= 5, "/result")
    # of each process of the service
    group = service.show("ControlGroup")
    seen = machine.run(
        f"for one in $(cat /sys/fs/cgroup{group}/cgroup.procs);"
        " do cat /proc/$one/environ /proc/$one/cmdline; done"
    )
    assert "CREDENTIALS_DIRECTORY=" in seen
    assert secret not in seen
    assert secret not in machine.journal()
    assert secret not in service.systemctl("show").stdout
    assert not any(secret.encode() in one.payload for one in heard.messages())
    # and nobody but the service and root reads it
    credential = "/run/credentials/edge-infer.service/mqtt-password"
    assert machine.ask("setpriv", "--reuid=nobody", "--clear-groups", "cat", credential).returncode != 0


def test_a_credential_that_is_missing_is_told_by_systemd_and_nothing_runs_without_it(
    service: Service,
) -> None:
    service.configure()
    service.drop_in("[Service]\nRestart=no\nLoadCredential=mqtt-password:/etc/edge-infer/mqtt-password\n")
    assert service.systemctl("start").returncode != 0
    assert "status=243/CREDENTIALS" in service.systemctl("status").stdout
