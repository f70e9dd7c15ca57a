from __future__ import annotations

import hashlib
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from edge_infer.config.site import Site, load_site
from edge_infer.errors import ConfigError, Mistake
from edge_infer.settings import Secrets
from tests.support.sites import CARD, GOOD, write_model, write_site


def changed(folder: Path, *changes: tuple[str, str]) -> Path:
    text = GOOD
    for old, new in changes:
        assert old in text
        text = text.replace(old, new, 1)
    return write_site(folder, text)


def site(folder: Path, *changes: tuple[str, str]) -> Site:
    return load_site(changed(folder, *changes))


def told(folder: Path, *changes: tuple[str, str]) -> list[Mistake]:
    path = changed(folder, *changes)
    with pytest.raises(ConfigError) as caught:
        load_site(path)
    return list(caught.value.mistakes)


def line_of(path: Path, text: str) -> int:
    return path.read_text().splitlines().index(text) + 1


def test_a_good_site_is_read_whole(tmp_path: Path) -> None:
    good = site(tmp_path)
    assert (good.site, good.line, good.device) == ("plant1", "l3", "ipc7")
    assert good.topic_prefix == "vision/v1/plant1/l3/ipc7"
    assert good.sha256 == hashlib.sha256(GOOD.encode()).hexdigest()
    assert good.state_dir == tmp_path / "state"
    assert good.cameras["top"].max_age_s == 0.5
    assert good.models["seals"].path == tmp_path / "seals"
    assert good.models["seals"].backend.type == "openvino"
    assert good.stations["cap"].rules[1].name == "no-tear"
    assert good.outbox.max_bytes == 500_000_000
    assert good.cards["seals"].labels == ("bottle", "tear")
    assert good.warnings == ()
    assert good.broken_models == ()


def test_what_may_be_left_out_has_a_default(tmp_path: Path) -> None:
    write_model(tmp_path / "m")
    path = tmp_path / "site.yaml"
    path.write_text(
        "format: 1\nsite: a\nline: b\ndevice: c\nmqtt: {host: h}\ncameras: {x: {type: synthetic}}\n"
        "models: {m: {path: m}}\nstations:\n  s:\n    camera: x\n    model: m\n"
        "    rules: [{name: r, count: {labels: [tear], at_most: 0}}]\n"
    )
    minimal = load_site(path)
    assert minimal.state_dir is None
    assert minimal.evidence is None
    assert minimal.models["m"].backend.type == "onnxruntime"
    assert minimal.models["m"].backend.device == "CPU"
    assert minimal.stations["s"].trigger.type == "continuous"
    assert minimal.topic_prefix == "vision/v1/a/b/c"


def test_a_device_without_a_name_has_its_host_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "ipc9.plant1.example")
    assert site(tmp_path, ("device: ipc7\n", "")).device == "ipc9"
    monkeypatch.setattr(socket, "gethostname", lambda: "localhost_?")
    (mistake,) = told(tmp_path, ("device: ipc7\n", ""))
    assert mistake.key == "device"
    assert "write device: NAME" in mistake.message


def test_every_name_that_leads_nowhere_is_told_with_the_one_that_was_meant(tmp_path: Path) -> None:
    one, two = told(tmp_path, ("camera: top", "camera: topp"), ("model: seals", "model: Seals"))
    assert (one.key, two.key) == ("stations.cap.camera", "stations.cap.model")
    assert one.line == line_of(tmp_path / "site.yaml", "    camera: topp")
    assert one.message == 'there is no camera topp under cameras:; did you mean "top"?'
    assert two.message == 'there is no model Seals under models:; did you mean "seals"?'


def test_a_mistake_in_a_station_does_not_hide_its_wrong_names(tmp_path: Path) -> None:
    keys = {one.key for one in told(tmp_path, ("camera: top", "camera: topp"), ("hold_s: 1", "hold_s: x"))}
    assert keys == {"stations.cap.camera", "stations.cap.hold_s"}


def test_a_wrong_camera_is_not_also_missed_by_its_station(tmp_path: Path) -> None:
    (mistake,) = told(tmp_path, ("transport: tcp", "transport: tpc"))
    assert mistake.key == "cameras.top.transport"
    assert 'did you mean "tcp"?' in mistake.message


def test_a_station_without_rules_is_refused(tmp_path: Path) -> None:
    rules = GOOD[GOOD.index("    rules:\n      - name: enough") : GOOD.index("    confirm:")]
    for nothing in ("", "    rules: []\n"):
        (mistake,) = told(tmp_path, (rules, nothing))
        assert mistake.key == "stations.cap"
        assert "needs rules" in mistake.message


def test_a_label_that_the_card_does_not_have_is_refused_at_its_place(tmp_path: Path) -> None:
    (mistake,) = told(tmp_path, ("labels: [tear]", "labels: [tear, tera]"))
    assert mistake.key == "stations.cap.rules[1].count.labels[1]"
    assert mistake.line == line_of(tmp_path / "site.yaml", "          labels: [tear, tera]")
    assert mistake.column == 26
    assert mistake.message == 'the model seals has no label "tera"; did you mean "tear"?'


@pytest.mark.parametrize(
    ("key", "value"), [("confirm", "{k: 1, n: 2}"), ("hold_s", "2"), ("publish", "change")]
)
@pytest.mark.parametrize("trigger", ["mqtt", "camera"])
def test_what_would_mix_parts_is_refused_on_a_triggered_station(
    tmp_path: Path, key: str, value: str, trigger: str
) -> None:
    text = f"    model: plain\n    {key}: {value}\n"
    station = "    trigger:\n      type: camera\n"
    (mistake,) = told(tmp_path, (f"{station}    model: plain\n", station.replace("camera", trigger) + text))
    assert mistake.key == f"stations.part.{key}"
    assert mistake.line == line_of(tmp_path / "site.yaml", f"    {key}: {value}")


def test_a_camera_without_a_line_cannot_trigger(tmp_path: Path) -> None:
    (mistake,) = told(tmp_path, ("camera: scene", "camera: tape"))
    assert mistake.key == "stations.part.trigger.type"
    assert "tape has no line" in mistake.message


@pytest.mark.parametrize(
    ("old", "new", "key", "words"),
    [
        ("box: [0, 0.2, 1, 0.8]", "box: [0, 0.8, 1, 0.2]", "region.box", "x1 < x2"),
        ("box: [0, 0.2, 1, 0.8]", "box: [0, 0.2, 1, 1.8]", "region.box", "0..1"),
        ("box: [0, 0.2, 1, 0.8]", "box: [0, 0.2, 1]", "region.box[3]", "missing"),
        (
            "polygon: [[0, 0], [1, 0], [1, 1]]",
            "polygon: [[0, 0], [1, 0]]",
            "rules[1].zone.polygon",
            "at least 3",
        ),
        (
            "polygon: [[0, 0], [1, 0], [1, 1]]",
            "polygon: [[0, 0], [1, 0], [2, 1]]",
            "rules[1].zone.polygon",
            "0..1",
        ),
        (
            "polygon: [[0, 0], [1, 0], [1, 1]]",
            "polygon: [[0, 0], [1, 0], [0.5, 0]]",
            "rules[1].zone.polygon",
            "area",
        ),
        (
            "polygon: [[0, 0], [1, 0], [1, 1]]",
            "polygon: [[0, 0], [1, 0], [1, 0.1]]",
            "rules[1].zone",
            "outside",
        ),
        (
            "          at_most: 0\n",
            "          min_score: 0.5\n",
            "rules[1].count",
            "at_least, at_most or both",
        ),
        (
            "      - name: no-tear",
            "      - name: enough-bottles",
            "rules",
            "two rules are named enough-bottles",
        ),
    ],
)
def test_rules_and_regions_that_cannot_be_meant(
    tmp_path: Path, old: str, new: str, key: str, words: str
) -> None:
    (mistake,) = told(tmp_path, (old, new))
    assert mistake.key == f"stations.cap.{key}"
    assert words in mistake.message


def test_a_missing_model_is_told_at_its_path(tmp_path: Path) -> None:
    (mistake,) = told(tmp_path, ("path: seals", "path: seal"))
    assert mistake.key == "models.seals.path"
    assert str(tmp_path / "seal") in mistake.message


def test_mistakes_of_a_model_card_come_with_its_own_place_among_all_others(tmp_path: Path) -> None:
    path = changed(tmp_path, ("hold_s: 1", "hold_s: x"))
    card = tmp_path / "seals/model.yaml"
    card.write_text(CARD.replace("labels: [bottle, tear]", "labels: [bottle, no]\nscor_threshold: 0.5"))
    with pytest.raises(ConfigError) as caught:
        load_site(path)
    told = [(one.file, one.line, one.key) for one in caught.value.mistakes]
    assert (str(path), line_of(path, "    hold_s: x"), "stations.cap.hold_s") in told
    assert (str(card), 4, "labels[1]") in told
    assert (str(card), 5, "scor_threshold") in told
    assert len(told) == 3


def test_a_damaged_network_is_the_trouble_of_its_model_only(tmp_path: Path) -> None:
    path = write_site(tmp_path)
    network = tmp_path / "seals/model.onnx"
    network.write_bytes(network.read_bytes()[:40])
    broken = load_site(path)
    assert [one.key for one in broken.broken_models] == ["models.seals.path", "models.plain.path"]
    assert "model.onnx" in broken.broken_models[0].message
    assert broken.cards == {}


def test_files_that_are_not_there_are_told_all_at_once(tmp_path: Path) -> None:
    path = write_site(tmp_path)
    (tmp_path / "tape/1.png").unlink()
    for name in ("ca.crt", "ipc7.crt", "ipc7.key"):
        (tmp_path / name).unlink()
    (tmp_path / "ipc7.crt").mkdir()
    with pytest.raises(ConfigError) as caught:
        load_site(path)
    assert [one.key for one in caught.value.mistakes] == [
        "mqtt.tls.ca", "mqtt.tls.cert", "mqtt.tls.key", "cameras.tape.path",
    ]  # fmt: skip


@pytest.mark.parametrize("pattern", ["tape/*.png", "tape/1.png", "tape", "ta*/[0-9].png"])
def test_recordings_may_be_a_file_a_folder_or_a_pattern(tmp_path: Path, pattern: str) -> None:
    site(tmp_path, ("path: tape", f'path: "{pattern}"'))


@pytest.mark.parametrize("pattern", ["tape/*.jpg", "tape/2.png", "tapes"])
def test_recordings_that_are_not_there_are_refused(tmp_path: Path, pattern: str) -> None:
    (mistake,) = told(tmp_path, ("path: tape", f'path: "{pattern}"'))
    assert mistake.key == "cameras.tape.path"


def test_a_password_in_an_address_is_refused_once_and_not_echoed(tmp_path: Path) -> None:
    (mistake,) = told(tmp_path, ("rtsp://10.0.0.9/s", "rtsp://admin:hunter2@10.0.0.9/s"))
    assert mistake.key == "cameras.top.url"
    assert "hunter2" not in str(mistake)


@pytest.mark.parametrize(
    ("old", "new", "key"),
    [
        ("path: tape", "path: rtsp://admin:hunter2@10.0.0.9/s", "cameras.tape.path"),
        ("path: seals", "path: http://admin:hunter2@10.0.0.9/m.onnx", "models.seals.path"),
        ("path: /dev/video9", "path: rtsp://admin:hunter2@10.0.0.9/s", "cameras.usb.path"),
        ("state_dir: state", "state_dir: smb://admin:hunter2@10.0.0.9/s", "state_dir"),
    ],
)
def test_an_address_with_a_password_is_refused_wherever_it_stands(
    tmp_path: Path, old: str, new: str, key: str
) -> None:
    (mistake,) = told(tmp_path, (old, new))
    assert mistake.key == key
    assert "must not stand in an address" in mistake.message
    assert "hunter2" not in str(mistake)


def test_passwords_in_the_clear_are_refused_and_not_echoed(tmp_path: Path) -> None:
    (mistake,) = told(tmp_path, ("password:\n    file: secret\n", "password: hunter2\n"))
    assert mistake.key == "mqtt.password"
    assert "hunter2" not in str(mistake)
    assert "{credential: NAME}" in mistake.message


def test_what_is_probably_not_meant_is_a_warning(tmp_path: Path) -> None:
    warned = site(
        tmp_path,
        ("  asked:", "  PART:"),
        ("camera: top", "camera: usb"),
        ("model: seals", "model: plain"),
        ('topic_prefix: "vision/v1/{site}/{line}/{device}"', "topic_prefix: vision"),
        ("min_score: 0.3", "min_score: 0.1"),
        ("at_most: 0", "at_least: 0"),
        ("recipes:", "evidence: {max_bytes: 2GB}\nrecipes:"),
    ).warnings
    assert {(one.key, one.message) for one in warned} == {
        ("cameras.top", "no station uses this camera"),
        ("models.seals", "no station uses this model"),
        ("stations.part", "differs from another name only by upper and lower case"),
        ("stations.PART", "differs from another name only by upper and lower case"),
        ("mqtt.topic_prefix", "without {device} a second device would publish on the same topics"),
        (
            "stations.cap.rules[0].count.min_score",
            "the model plain drops everything below its score_threshold 0.25: this has no effect",
        ),
        ("stations.cap.rules[1].count.at_least", "at_least: 0 can never be broken"),
    }


def test_secrets_that_are_not_on_this_machine_are_named_at_their_key(tmp_path: Path) -> None:
    path = write_site(tmp_path)
    (tmp_path / "secret").unlink()
    good = load_site(path)
    here = Secrets({"EDGE_INFER_TEST_CAMERA": "hunter2"})
    assert [one.key for one in good.missing_secrets(here)] == ["mqtt.password"]
    assert [one.key for one in good.missing_secrets(Secrets({}))] == ["mqtt.password", "cameras.top.password"]
    with pytest.raises(ConfigError, match="EDGE_INFER_TEST_CAMERA"):
        good.require_secrets(Secrets({}))
    (tmp_path / "secret").write_text("hunter2\n")
    good.require_secrets(here)


@pytest.mark.parametrize(
    "name", ["Line #1", "A+B", "#", "+", "", "$SYS", "gate/left", "Kühlhaus", "x" * 41, "a b"]
)
def test_names_that_cannot_be_in_a_topic_are_refused(tmp_path: Path, name: str) -> None:
    keys = [one.key for one in told(tmp_path, ("  part:", f'  "{name}":'))]
    assert keys == [f"stations.{name}"]


def test_anchors_and_merge_keys_work_in_a_site(tmp_path: Path) -> None:
    merged = site(
        tmp_path,
        ("  plain:\n    path: seals\n", "  plain:\n    <<: *seals\n"),
        ("  seals:\n", "  seals: &seals\n"),
    )
    assert merged.models["plain"].path == merged.models["seals"].path
    assert merged.models["plain"].backend.type == "onnxruntime"


def test_checking_loads_no_runtime_no_video_library_and_no_broker_client(tmp_path: Path) -> None:
    path = write_site(tmp_path)
    code = (
        "import sys\n"
        "for name in ('cv2', 'av', 'onnxruntime', 'openvino', 'paho'): sys.modules[name] = None\n"
        "from pathlib import Path\n"
        "from edge_infer.config.site import load_site\n"
        "print(len(load_site(Path(sys.argv[1])).stations))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.stdout.strip(), done.stderr) == ("4", "")


def test_a_folder_is_watched_by_one_camera_only(tmp_path: Path) -> None:
    box = "{type: files, path: in, watch: true}"
    (mistake,) = told(
        tmp_path, ("cameras:\n", f"cameras:\n  box: {box}\n  box2: {box.replace('in,', './in,')}\n")
    )
    assert mistake.key == "cameras.box2.path"
    assert mistake.message == (
        "the camera box watches this folder already, and each picture would be taken by only one of them; "
        "let all stations that see it name one camera"
    )


def test_a_cameras_certificate_that_is_not_there_is_a_warning(tmp_path: Path) -> None:
    web = "{type: http, url: 'https://10.0.0.9/x', ca: nix.pem}"
    warned = {
        one.key: one.message for one in site(tmp_path, ("cameras:\n", f"cameras:\n  web: {web}\n")).warnings
    }
    assert (
        warned["cameras.web.ca"]
        == f"there is no file {tmp_path / 'nix.pem'}, or this user may not look for it"
    )
