"""Industrial cameras in the site's YAML: what does not belong together is told before anything is opened."""

from __future__ import annotations

from pathlib import Path

import pytest

from edge_infer.config.site import load_site
from edge_infer.errors import ConfigError
from tests.support.sites import write_model

HEAD = "format: 1\nsite: a\nline: b\ndevice: c\nmqtt: {host: h}\nmodels: {m: {path: m}}\n"
ONLY_ASKED = "the camera top takes a picture only when a part asks; use mqtt, or let the camera run freely"
AT_ONCE = (
    "the camera top takes one picture a part, at once: there is none for later; "
    "set the delay in the camera, features: {TriggerDelay: ...}"
)
RULES = "rules: [{name: r, count: {labels: [bottle], at_least: 1}}]"


def told(folder: Path, camera: str, trigger: str = "{type: continuous}") -> list[str]:
    """Each mistake as ``key: message``."""
    write_model(folder / "m")
    path = folder / "site.yaml"
    path.write_text(
        f"{HEAD}cameras: {{top: {{type: gige, {camera}}}}}\n"
        f"stations: {{cap: {{camera: top, model: m, trigger: {trigger}, {RULES}}}}}\n"
    )
    try:
        load_site(path)
    except ConfigError as error:
        return [f"{one.key}: {one.message}" for one in error.mistakes]
    return []


@pytest.mark.parametrize(
    ("camera", "trigger"),
    [
        ("address: 10.0.0.5", "{type: continuous}"),
        ('serial: "40012345", frame_rate: 10', "{type: every, every_s: 1}"),
        ("device_id: Basler-40012345, exposure_us: 800", "{type: mqtt, delay_ms: 20}"),
        ("address: 10.0.0.5, trigger: software", "{type: mqtt, delay_ms: 20}"),
        ("address: 10.0.0.5, trigger: line, line: Line1", "{type: camera}"),
        ("address: 10.0.0.5, trigger: line, line: Line1", "{type: mqtt}"),
        ("address: 10.0.0.5, features: {Gamma: 0.7, LUTEnable: true, BinningHorizontal: 2}", "{type: mqtt}"),
    ],
)
def test_what_fits_together_is_accepted(tmp_path: Path, camera: str, trigger: str) -> None:
    assert told(tmp_path, camera, trigger) == []


@pytest.mark.parametrize(
    ("camera", "text"),
    [
        ("width: 640", "cameras.top: name the camera by exactly one of address, serial and device_id"),
        ("address: 10.0.0.5, serial: A1", "cameras.top: name the camera by exactly one of"),
        ("address: camera-7", "cameras.top.address: is not an IPv4 address; write it like 10.0.0.5"),
        ("address: 10.0.0.5, pixel_format: YUV", "cameras.top.pixel_format: is not one of the pixel formats"),
        ("address: 10.0.0.5, trigger: line", "cameras.top: trigger: line and line: NAME go together"),
        ("address: 10.0.0.5, trigger: software, line: Line1", "cameras.top: trigger: line and line: NAME go"),
        (
            "address: 10.0.0.5, trigger: software, frame_rate: 5",
            "cameras.top: a camera that waits for a trig",
        ),
    ],
)
def test_a_camera_that_contradicts_itself_is_refused(tmp_path: Path, camera: str, text: str) -> None:
    (mistake,) = told(tmp_path, camera)
    assert mistake.startswith(text)


@pytest.mark.parametrize(
    ("camera", "trigger", "text"),
    [
        (
            "",
            "{type: camera}",
            "type: the camera top has no line that could trigger; use continuous, every or mqtt",
        ),
        (
            ", trigger: software",
            "{type: camera}",
            "type: the camera top has no line that could trigger; use mqtt",
        ),
        (
            ", trigger: software",
            "{type: continuous}",
            f"type: {ONLY_ASKED}",
        ),
        (
            ", trigger: software",
            "{type: every, every_s: 1}",
            f"type: {ONLY_ASKED}",
        ),
        (
            ", trigger: line, line: Line1",
            "{type: camera, delay_ms: 5}",
            f"delay_ms: {AT_ONCE}",
        ),
    ],
)
def test_a_trigger_that_the_camera_cannot_give_is_refused(
    tmp_path: Path, camera: str, trigger: str, text: str
) -> None:
    assert told(tmp_path, f"address: 10.0.0.5{camera}", trigger) == [f"stations.cap.trigger.{text}"]


def test_a_watched_folder_has_no_feature_for_a_delay(tmp_path: Path) -> None:
    write_model(tmp_path / "m")
    path = tmp_path / "site.yaml"
    path.write_text(
        f"{HEAD}cameras: {{top: {{type: files, path: in, watch: true}}}}\n"
        f"stations: {{cap: {{camera: top, model: m, trigger: {{type: camera, delay_ms: 5}}, {RULES}}}}}\n"
    )
    with pytest.raises(ConfigError) as refused:
        load_site(path)
    (mistake,) = refused.value.mistakes
    assert mistake.message == (
        "the camera top takes one picture a part, at once: there is none for later; "
        "set the delay where it is taken"
    )
