"""Compiled networks that are kept for the next start: right or not used."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from edge_infer.backends import blobs as module
from edge_infer.backends import openvino as backend_module
from edge_infer.backends.blobs import Blobs
from edge_infer.backends.openvino import OpenVino
from edge_infer.model.card import ModelCard
from edge_infer.model.load import load_model
from edge_infer.model.network_file import read_network
from edge_infer.network import Network
from tests.support.filesystems import SmallDisk
from tests.support.real_networks import bundled, write_card
from tests.support.runs import Run, site

SETTINGS = OpenVino()


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The networks that OpenVINO compiled."""
    told: list[str] = []
    real = backend_module._compile

    def compile_it(core: object, card: ModelCard, *rest: object) -> object:
        told.append(card.name)
        return real(core, card, *rest)  # type: ignore[arg-type]  # passed on as given

    monkeypatch.setattr(backend_module, "_compile", compile_it)
    return told


@pytest.fixture
def card() -> ModelCard:
    return load_model(bundled()[0])


def copied(card: ModelCard, folder: Path) -> ModelCard:
    """With a network that may be written to."""
    return replace(card, network=Path(shutil.copy(card.network, folder)))


def answer(card: ModelCard, blobs: Blobs | None, settings: OpenVino = SETTINGS) -> object:
    network = Network.open(card, settings, blobs)
    rng = np.random.default_rng(3)
    findings = network.infer(rng.integers(0, 256, (480, 640, 3), np.uint8)).findings
    network.close()
    return findings


def test_the_second_start_compiles_nothing_and_answers_the_same(
    card: ModelCard, tmp_path: Path, compiled: list[str]
) -> None:
    first = answer(card, Blobs(tmp_path / "kept"))
    assert len(compiled) == 1
    again = answer(card, Blobs(tmp_path / "kept"))
    assert len(compiled) == 1
    assert repr(again) == repr(first) == repr(answer(card, None))


def test_a_real_network_answers_the_same_from_its_blob(
    shared: Path, tmp_path: Path, compiled: list[str]
) -> None:
    card = load_model(write_card(tmp_path, shared, "yolox_nano/yolox_nano"))
    expected = answer(card, None, OpenVino(profile="throughput"))
    for _ in range(2):
        assert repr(answer(card, Blobs(tmp_path / "kept"), OpenVino(profile="throughput"))) == repr(expected)
    assert len(compiled) == 2


class Driven:
    """The core, of a device with a driver that is updated by itself."""

    def __init__(self, core: Any, driver: str) -> None:
        self._core, self._driver = core, driver

    def get_property(self, device: str, name: str) -> Any:
        if name == "GPU_DRIVER_VERSION":
            return self._driver
        told = self._core.get_property(device, name)
        return {**told, "GPU_DRIVER_VERSION": "RO"} if name == "CACHING_PROPERTIES" else told

    def __getattr__(self, name: str) -> Any:
        return getattr(self._core, name)


def drive(monkeypatch: pytest.MonkeyPatch, driver: str) -> None:
    core = Driven(backend_module.the_core(), driver)
    monkeypatch.setattr(backend_module, "the_core", lambda: core)


def other_weights(network: Path) -> None:
    """The same network, trained to another end."""
    model = onnx.load(network)
    for weights in model.graph.initializer:
        values = onnx.numpy_helper.to_array(weights)
        if values.dtype == np.float32 and values.ndim == 4:
            weights.CopyFrom(onnx.numpy_helper.from_array(values * np.float32(0.9), weights.name))
    onnx.save(model, network)


CHANGES = ["model", "input", "edge-infer", "runtime", "device", "driver", "precision", "threads"]


@pytest.mark.parametrize("change", CHANGES)
def test_whatever_changes_is_compiled_anew(
    card: ModelCard, tmp_path: Path, compiled: list[str], monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    kept = Blobs(tmp_path / "kept")
    card = copied(card, tmp_path)
    if change == "driver":
        drive(monkeypatch, "32.0.1")
    answer(card, kept)
    settings = SETTINGS
    if change == "model":
        other_weights(card.network)
        card = replace(card, sha256=read_network(card.network).sha256)
    elif change == "input":
        card = replace(card, input=replace(card.input, scale=200.0))
    elif change == "edge-infer":
        # another one may fold preprocessing in otherwise
        monkeypatch.setattr(backend_module, "__version__", "99.0")
    elif change == "driver":
        drive(monkeypatch, "32.0.2")
    elif change == "runtime":
        import openvino

        monkeypatch.setattr(openvino, "__version__", "2026.4.2-1-other")
    elif change == "device":
        real = backend_module._key
        monkeypatch.setattr(
            backend_module, "_key", lambda *given: {**(real(*given) or {}), "FULL_DEVICE_NAME": "another CPU"}
        )
    elif change == "precision":
        settings = OpenVino(precision="bf16")
    else:
        settings = OpenVino(threads=1)
    answer(card, kept, settings)
    assert len(compiled) == 2
    # and the one before is there still
    assert len(list((tmp_path / "kept").iterdir())) == 2


def test_a_network_that_was_replaced_since_it_was_read_is_not_kept_as_the_one_before(
    card: ModelCard, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    kept = Blobs(tmp_path / "kept")
    card = copied(card, tmp_path)
    expected, original = answer(card, None), card.network.read_bytes()
    other_weights(card.network)
    assert repr(answer(card, kept)) != repr(expected)
    assert "was replaced" in caplog.text
    # and back again
    card.network.write_bytes(original)
    assert repr(answer(card, kept)) == repr(expected)


def test_a_device_that_does_not_tell_what_a_blob_depends_on_has_none(
    card: ModelCard, tmp_path: Path, compiled: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Silent(Driven):
        def get_property(self, device: str, name: str) -> Any:
            if name == "CACHING_PROPERTIES":
                raise RuntimeError("Exception from src/plugin.cpp:1:\nNot supported")
            return super().get_property(device, name)

    core = Silent(backend_module.the_core(), "")
    monkeypatch.setattr(backend_module, "the_core", lambda: core)
    answer(card, Blobs(tmp_path))
    assert compiled == [card.name]
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("damage", ["cut", "turned", "empty", "other key", "folder"])
def test_a_damaged_blob_is_told_and_not_used(
    card: ModelCard, tmp_path: Path, compiled: list[str], caplog: pytest.LogCaptureFixture, damage: str
) -> None:
    kept = Blobs(tmp_path)
    expected = answer(card, kept)
    (path,) = tmp_path.iterdir()
    data = bytearray(path.read_bytes())
    if damage == "cut":
        path.write_bytes(data[:-1])
    elif damage == "turned":
        data[len(data) // 2] ^= 1
        path.write_bytes(data)
    elif damage == "empty":
        path.write_bytes(b"")
    elif damage == "other key":
        path.write_bytes(data.replace(b'"CPU"', b'"GPU"', 1))
    else:
        path.unlink()
        path.mkdir()
    assert repr(answer(card, kept)) == repr(expected)
    assert len(compiled) == 2
    assert str(path) in caplog.text
    if damage != "folder":
        # it is whole again
        answer(card, kept)
        assert len(compiled) == 2


def test_a_blob_that_the_runtime_refuses_is_compiled_anew(
    card: ModelCard, tmp_path: Path, compiled: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    kept = Blobs(tmp_path)
    core = backend_module.the_core()
    key = backend_module._key(core, card, "CPU", {**backend_module._hints(SETTINGS, "CPU"), "batch": "1"})
    assert key is not None
    kept.put(key, b"whole, but nothing that OpenVINO knows")
    expected = answer(card, kept)
    assert compiled == [card.name]
    assert "is of no use" in caplog.text
    assert repr(answer(card, kept)) == repr(expected)
    assert compiled == [card.name]


def test_b07_a_full_disk_costs_the_blob_and_nothing_else(
    card: ModelCard, small_disk: SmallDisk, compiled: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    disk = small_disk("10m")
    expected = answer(card, None)
    for filled in (False, True):
        if filled:
            disk.fill()
        caplog.clear()
        assert repr(answer(card, Blobs(disk.path / "kept"))) == repr(expected)
        assert f"{disk.path / 'kept'} is too full" in caplog.text
    assert len(compiled) == 3
    assert not list(disk.path.glob("kept/*"))


def test_a_blob_that_does_not_get_onto_the_disk_leaves_nothing_there(
    small_disk: SmallDisk, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    # the room that was there may be taken meanwhile
    monkeypatch.setattr(module, "FLOOR_BYTES", -(10**12))
    disk = small_disk("1m")
    kept = Blobs(disk.path / "kept")
    kept.put({"number": "1"}, bytes(2_000_000))
    assert "cannot be kept" in caplog.text
    assert kept.get({"number": "1"}) is None
    assert not list(disk.path.glob("kept/*"))


def test_a_folder_that_cannot_be_written_to_costs_the_blob_and_nothing_else(
    card: ModelCard, tmp_path: Path, compiled: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("in its place")
    answer(card, Blobs(tmp_path / "file" / "kept"))
    assert compiled == [card.name]
    assert "cannot be kept" in caplog.text


def test_those_that_were_used_longest_ago_make_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_BYTES", 3500)
    kept = Blobs(tmp_path)
    for number in range(4):
        kept.put({"number": str(number)}, bytes(900))
        for path in tmp_path.iterdir():
            told = path.stat()
            os.utime(path, (told.st_atime - 10, told.st_mtime - 10))
        assert kept.get({"number": "0"}) == bytes(900)
    assert [kept.get({"number": str(number)}) is None for number in range(4)] == [False, True, False, False]


def test_what_a_kill_left_of_a_blob_is_removed_like_the_blobs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_BYTES", 3500)
    (tmp_path / "abandoned.part").write_bytes(bytes(3000))
    os.utime(tmp_path / "abandoned.part", (1, 1))
    kept = Blobs(tmp_path)
    kept.put({"number": "1"}, bytes(900))
    assert [path.suffix for path in tmp_path.iterdir()] == [".blob"]


def test_a_device_that_is_chosen_anew_each_time_has_no_blob(
    card: ModelCard, tmp_path: Path, compiled: list[str]
) -> None:
    for _ in range(2):
        answer(card, Blobs(tmp_path), OpenVino(device="AUTO"))
    assert len(compiled) == 2
    assert not list(tmp_path.iterdir())


def test_the_service_keeps_its_compiled_networks_in_the_cache(tmp_path: Path, run: Run) -> None:
    cache = tmp_path / "cache"
    use = {"path": "model", "backend": {"type": "openvino"}}
    path = site(tmp_path / "site", None, frames=5, models={"m": use})
    assert run(path, CACHE_DIRECTORY=str(cache)).wait() == 0
    (blob,) = (cache / "networks").iterdir()
    written_s = blob.stat().st_mtime_ns
    before = blob.read_bytes()
    assert run(path, CACHE_DIRECTORY=str(cache)).wait() == 0
    assert [one.read_bytes() for one in (cache / "networks").iterdir()] == [before]
    assert blob.stat().st_mtime_ns > written_s
