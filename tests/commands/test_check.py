from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import cv2
import jsonschema
import numpy as np
import pytest

from edge_infer import cli
from edge_infer.golden import write
from tests.support.pki import Pki
from tests.support.sites import CARD, GOOD, write_model, write_site

Said = tuple[int, str, str]
"""Exit code, standard output, standard error."""


OBJECT = '{"label": "tear", "class_id": 1, "score": 0.9, "box": [1, 2, 3, 4]}'


class Check:
    """Runs ``edge-infer check`` in this process."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._monkeypatch = monkeypatch
        self._capsys = capsys

    def __call__(self, *arguments: str | Path) -> Said:
        self._monkeypatch.setattr(sys, "argv", ["edge-infer", "check", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        out, err = self._capsys.readouterr()
        assert "Traceback" not in out + err
        return int(ended.value.code or 0), out, err


@pytest.fixture
def check(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Check:
    monkeypatch.setenv("EDGE_INFER_TEST_CAMERA", "made up")
    return Check(monkeypatch, capsys)


def test_a_good_site_is_told_in_one_line(check: Check, tmp_path: Path) -> None:
    path = write_site(tmp_path)
    rooms = (
        "4 stations (cap, part, asked, replay); 4 cameras (top, tape, usb, scene); 2 models (seals, plain); "
        "1 recipe (night)"
    )
    missing = "not commissioned on this machine: cap, part, asked, replay"
    assert check(path) == (0, f"{path}: ok: {rooms}; {missing}\n", "")


def test_a_certificate_out_of_its_time_and_an_open_key_are_warned_of_at_their_key(
    check: Check, tmp_path: Path
) -> None:
    path = write_site(tmp_path)
    pki = Pki(tmp_path / "pki")
    pki.sign("over", days=-2, begins_in_days=-20)
    (tmp_path / "ipc7.crt").write_text(Path(pki.path("over.crt")).read_text())
    (tmp_path / "ca.crt").write_text(Path(pki.path("future.crt")).read_text())
    (tmp_path / "ipc7.key").chmod(0o644)
    code, _, err = check(path)
    assert code == 0
    ca, cert, key = err.splitlines()
    assert ca.startswith(f"{path}:14:9: mqtt.tls.ca: warning: the certificate")
    assert "is not valid before" in ca
    assert cert.startswith(f"{path}:15:11: mqtt.tls.cert: warning: the certificate")
    assert "has expired on" in cert
    assert key.startswith(f"{path}:16:10: mqtt.tls.key: warning: everybody on this machine may read")


def test_every_mistake_is_a_line_on_standard_error_and_the_exit_code_is_78(
    check: Check, tmp_path: Path
) -> None:
    path = write_site(tmp_path, GOOD.replace("site: plant1", "site: NO").replace("fps: 30", "fbs: 30"))
    code, out, err = check(path)
    assert (code, out) == (78, "")
    assert err.splitlines() == [
        f'{path}:2:7: site: NO without quotes is read as false, not as text; write "NO"',
        f'{path}:37:5: cameras.usb.fbs: unknown key; did you mean "fps"?',
    ]


def test_json_is_one_object_a_mistake_and_nothing_else(check: Check, tmp_path: Path) -> None:
    path = write_site(tmp_path, GOOD.replace("line: l3", "line: 0123"))
    code, out, err = check(path, "--json")
    assert (code, err) == (78, "")
    assert [json.loads(line) for line in out.splitlines()] == [
        {
            "file": str(path), "line": 3, "column": 7, "key": "line", "level": "error",
            "message": '0123 without quotes is read as the number 83, not as text; write "0123"',
        }
    ]  # fmt: skip


def test_json_of_a_good_site_is_empty(check: Check, tmp_path: Path) -> None:
    assert check(write_site(tmp_path), "--json") == (0, "", "")


def test_a_secret_that_is_not_here_is_a_warning(
    check: Check, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("EDGE_INFER_TEST_CAMERA")
    path = write_site(tmp_path)
    code, out, err = check(path)
    assert code == 0
    assert ": ok: " in out
    assert err.startswith(
        f"{path}:23:5: cameras.top.password: warning: the environment variable EDGE_INFER_TEST_CAM"
    )
    code, out, err = check(path, "--json")
    assert (code, err) == (0, "")
    assert json.loads(out)["level"] == "warning"


def test_a_network_that_cannot_be_used_is_a_mistake(check: Check, tmp_path: Path) -> None:
    path = write_site(tmp_path)
    (tmp_path / "seals/model.onnx").write_bytes(b"version https://git-lfs.github.com/spec/v1\n")
    code, out, err = check(path)
    assert (code, out) == (78, "")
    assert f"{path}:47:11: models.seals.path: " in err


def test_verify_loads_each_network_on_its_device(check: Check, tmp_path: Path) -> None:
    path = write_site(tmp_path)
    code, out, err = check(path, "--verify")
    assert (code, err) == (0, "")
    assert "every network loads on its device" in out


def test_verify_names_a_device_that_is_not_there(check: Check, tmp_path: Path) -> None:
    path = write_site(
        tmp_path, GOOD.replace("      device: CPU\n      fallback: [CPU]\n", "      device: GPU.7\n")
    )
    assert check(path)[0] == 0
    code, out, err = check(path, "--verify")
    assert (code, out) == (78, "")
    (line,) = err.splitlines()
    assert line.startswith(f"{path}:46:3: models.seals: ")
    assert "GPU.7" in line
    assert "CPU" in line


def test_verify_runs_golden_pictures_on_the_device_that_will_judge(check: Check, tmp_path: Path) -> None:
    path = write_site(tmp_path)
    grey = tmp_path / "grey.png"
    cv2.imwrite(str(grey), np.full((48, 64, 3), 90, np.uint8))
    write(tmp_path / "seals", [grey])
    code, out, err = check(path, "--verify")
    assert (code, err) == (0, "")
    assert out.startswith(
        "models.seals: CPU f32: 1 golden picture: largest score difference 0 (at most 0.001)"
    )
    assert check(path, "--verify", "--json") == (0, "", "")

    expect = tmp_path / "seals/golden/grey.json"
    expect.write_text(expect.read_text().replace('"detections": []', f'"detections": [{OBJECT}]'))
    assert check(path)[0] == 0
    code, out, err = check(path, "--verify")
    assert (code, out) == (78, "")
    first, second = err.splitlines()
    assert first.startswith(
        f"{path}:46:3: models.seals: golden pictures: grey.png: tear 0.900 at 1 2 3 4 is mis"
    )
    assert second.startswith(f"{path}:52:3: models.plain: golden pictures: grey.png: ")


def test_the_schema_needs_no_file_and_accepts_the_site(check: Check, tmp_path: Path) -> None:
    code, out, err = check("--schema")
    assert (code, err) == (0, "")
    from edge_infer.yamlfile import load

    jsonschema.validate(load(write_site(tmp_path)).data, json.loads(out))


def test_without_a_file_it_says_what_it_wants(check: Check) -> None:
    code, _, err = check()
    assert code == 2
    assert "name the YAML file" in err


@pytest.mark.parametrize(
    "content", [None, b"", b"\xff\xfe", b"a: [", b"\0\0\0", b"[]", b"\x89PNG\r\n\x1a\n", b"{}"]
)
def test_files_that_are_no_site_are_told_with_78(check: Check, tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "site.yaml"
    if content is not None:
        path.write_bytes(content)
    code, out, err = check(path)
    assert (code, out) == (78, "")
    assert err.startswith(str(path))


def test_a_folder_is_told_with_78(check: Check, tmp_path: Path) -> None:
    code, _, err = check(tmp_path)
    assert code == 78
    assert "is a folder" in err


def test_e01_bare_no_is_refused_with_its_line_and_never_becomes_false(check: Check, shared: Path) -> None:
    code, _, err = check(shared / "cases/open/E01/labels.yaml")
    assert code == 78
    assert re.search(r'labels.yaml:2:7: site: NO .*write "NO"', err)
    assert "False" not in err


def test_e01_bare_words_as_labels_are_refused_in_a_card_and_in_a_rule(check: Check, tmp_path: Path) -> None:
    words = "[yes, no, on, off, NO, Y, ok]"
    path = write_site(tmp_path, GOOD.replace("labels: [tear]", f"labels: {words}"))
    write_model(tmp_path / "seals", CARD.replace("[bottle, tear]", words), classes=7)
    code, _, err = check(path)
    assert code == 78
    for file, key, line in (
        (path, "stations.cap.rules[1].count.labels", 75),
        (tmp_path / "seals/model.yaml", "labels", 4),
    ):
        for index, word in enumerate(["yes", "no", "on", "off", "NO"]):
            assert re.search(
                rf'{re.escape(f"{file}:{line}:")}\d+: {re.escape(f"{key}[{index}]")}: .*write "{word}"', err
            )
    assert "False" not in err
    assert "labels[5]: Y" not in err


def test_e03_a_key_given_twice_is_told_with_both_lines(check: Check, shared: Path) -> None:
    code, _, err = check(shared / "cases/open/E03/dup.yaml")
    assert code == 78
    assert "dup.yaml:6:3: cameras.line1: the key is given twice, in line 2 and in line 6" in err
    assert "dup.yaml:9:1: threshold: the key is given twice, in line 8 and in line 9" in err


def test_e05_the_byte_order_mark_is_no_part_of_a_key(check: Check, shared: Path, tmp_path: Path) -> None:
    code, _, err = check(shared / "cases/open/E05/bom.yaml")
    assert code == 78
    assert "bom.yaml:1:1: name: unknown key" in err
    path = write_site(tmp_path)
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert check(path)[0] == 0


def test_e05_a_file_that_is_not_utf8_is_told_with_its_byte(check: Check, shared: Path) -> None:
    code, _, err = check(shared / "cases/open/E05/latin1.yaml")
    assert code == 78
    assert "latin1.yaml:1:8: the file is not UTF-8: byte 0xFC at position 7" in err


def test_e19_a_name_in_braces_is_told_with_its_key_and_the_form_to_write(check: Check, shared: Path) -> None:
    code, _, err = check(shared / "cases/open/E19/braces.yaml")
    assert code == 78
    assert "braces.yaml:2:14: mqtt.password.MQTT_PASSWORD: " in err
    assert "write {env: MQTT_PASSWORD}" in err


def test_e21_anchors_and_merge_keys_pass_the_duplicate_check(
    check: Check, shared: Path, tmp_path: Path
) -> None:
    code, _, err = check(shared / "cases/open/E21/merge.yaml")
    assert code == 78
    assert "twice" not in err
    text = GOOD.replace("  seals:\n", "  seals: &seals\n").replace(
        "  plain:\n    path: seals\n    backend:\n", "  plain:\n    <<: *seals\n    backend:\n"
    )
    assert check(write_site(tmp_path, text))[0] == 0


def test_no_secret_is_ever_printed(check: Check, tmp_path: Path) -> None:
    address = GOOD.replace("rtsp://10.0.0.9/s", "rtsp://admin:hunter2@10.0.0.9/s")
    clear = GOOD.replace("password:\n    file: secret\n", "password: hunter2\n")
    braces = GOOD.replace("password:\n    file: secret\n", "password: {hunter2}\n")
    for text in (address, clear, braces):
        code, out, err = check(write_site(tmp_path, text), "--json")
        assert code == 78
        assert "hunter2" not in out + err
