"""No AVX: one line, no runtime, no restart."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from edge_infer import cpu
from edge_infer.doctor import configuration, processor, runtimes
from edge_infer.errors import UnfitMachineError
from tests.support.patients import ARM, CELERON, CORE, root, subject, told
from tests.support.runs import site


def write(folder: Path, text: str) -> Path:
    path = folder / "cpuinfo"
    path.write_text(text)
    return path


def test_b17_a_processor_without_avx_is_refused_in_one_line_with_the_way_out(tmp_path: Path) -> None:
    with pytest.raises(UnfitMachineError) as refused:
        cpu.require(write(tmp_path, CELERON), "x86_64")
    text = str(refused.value)
    assert "J1900" in text
    assert "has no AVX" in text
    assert "`host`" in text
    assert "\n" not in text


@pytest.mark.parametrize(
    ("text", "machine"),
    [(CORE, "x86_64"), (ARM, "aarch64"), ("nothing of it", "x86_64"), (CELERON, "riscv64")],
)
def test_what_is_fit_or_unknown_is_not_refused(tmp_path: Path, text: str, machine: str) -> None:
    cpu.require(write(tmp_path, text), machine)


def test_a_list_that_cannot_be_read_refuses_nobody(tmp_path: Path) -> None:
    cpu.require(tmp_path / "absent", "x86_64")


def test_one_core_that_cannot_is_enough_to_refuse(tmp_path: Path) -> None:
    with pytest.raises(UnfitMachineError):
        cpu.require(write(tmp_path, f"{CORE}\n\nprocessor: 1\n{CELERON}"), "x86_64")


def started_on_a_celeron(folder: Path, command: str) -> tuple[int, list[str], set[str]]:
    """Exit code, what it said on standard error, which packages it loaded."""
    config, fake = site(folder / "site", None), write(folder, CELERON)
    # the kernel's own file is this one for it
    done = subprocess.run(
        [
            "unshare", "--mount", "sh", "-c", 'mount --bind "$0" /proc/cpuinfo && exec "$@"', str(fake),
            sys.executable, "-X", "importtime", "-m", "edge_infer", command, str(config),
        ],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    lines = done.stderr.splitlines()
    loaded = [line.rpartition("|")[2].strip() for line in lines if line.startswith("import time:")]
    said = [line for line in lines if not line.startswith("import time:")]
    return done.returncode, said, {name.partition(".")[0] for name in loaded}


DEADLY = {"numpy", "cv2", "onnxruntime", "openvino", "av"}


def test_b17_run_ends_with_78_and_one_line_before_anything_is_loaded_that_would_crash(tmp_path: Path) -> None:
    code, said, loaded = started_on_a_celeron(tmp_path, "run")
    assert code == 78
    assert len(said) == 1
    assert "J1900" in said[0]
    assert not DEADLY & loaded


def test_b17_the_doctor_loads_nothing_of_it_either(tmp_path: Path) -> None:
    code, said, loaded = started_on_a_celeron(tmp_path, "doctor")
    assert (code, said) == (1, [])
    assert not DEADLY & loaded


def test_the_unit_is_not_restarted_after_that_exit_code() -> None:
    unit = Path(__file__).parents[2] / "systemd/edge-infer.service"
    assert f"RestartPreventExitStatus={UnfitMachineError.exit_code}" in unit.read_text().splitlines()


def test_b17_no_runtime_is_asked_and_no_configuration_read_on_it(tmp_path: Path) -> None:
    patient = subject(root(tmp_path / "root", **{"proc/cpuinfo": CELERON}), site(tmp_path / "site", None))
    assert told(processor.check, patient)["cpu"].status == "fail"
    assert told(runtimes.check, patient) == {}
    assert "not looked at" in told(configuration.check, patient)["config"].found


def test_one_without_avx2_is_warned_of(tmp_path: Path) -> None:
    patient = subject(root(tmp_path, **{"proc/cpuinfo": CORE.replace(" avx2", "")}))
    assert told(processor.check, patient)["cpu"].status == "warn"


def test_b13_cores_that_are_hidden_are_told_with_the_way_out(tmp_path: Path) -> None:
    patient = subject(root(tmp_path, **{"sys/devices/system/cpu/present": "0-11"}))
    found = told(processor.check, patient)["cpu.cores"]
    assert found.status == "warn"
    assert "LXC" in found.mend


def test_a_container_without_sys_is_told_where_openvino_would_never_return(tmp_path: Path) -> None:
    folder = root(tmp_path)
    (folder / "sys/devices/system/cpu/present").unlink()
    assert told(processor.check, subject(folder))["cpu.cores"].status == "fail"
