"""What every backend promises, over every backend."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from edge_infer.backends import BACKENDS, Backend, BackendSettings
from edge_infer.errors import BackendError, ModelError
from edge_infer.model.card import InputCard
from edge_infer.model.load import load_model
from edge_infer.preprocess import Preprocess
from edge_infer.registry import resolve
from edge_infer.tensor import PictureSpec, Tensor
from tests.support import networks
from tests.support.preprocessing import Fresh

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


@pytest.fixture(params=sorted(BACKENDS))
def settings(request: pytest.FixtureRequest) -> Callable[..., BackendSettings]:
    name: str = request.param
    return lambda **keys: resolve(BACKENDS, name)(type=name, **keys)


def photo(height: int = 64, width: int = 96) -> NDArray[np.uint8]:
    """BGR, a different ramp in every channel."""
    y, x = np.mgrid[:height, :width]
    return np.stack([x * 2 % 256, y * 3 % 256, (x + y) % 256], axis=2).astype(np.uint8)


def picture_spec(backend: Backend) -> PictureSpec:
    (spec,) = backend.inputs
    assert isinstance(spec, PictureSpec)
    return spec


def feed(backend: Backend, card_input: InputCard, pixels: NDArray[np.uint8]) -> dict[str, Tensor]:
    spec = picture_spec(backend)
    tensor, _ = Fresh(card_input, spec)(pixels)
    return backend.infer({spec.name: tensor})


@pytest.mark.parametrize("color", ["rgb", "bgr", "gray"])
@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "uint8"])
def test_the_network_sees_the_picture_that_the_card_describes(
    settings: Callable[..., BackendSettings], tmp_path: Path, color: str, layout: str, dtype: str
) -> None:
    channels = 1 if color == "gray" else 3
    shape = (1, channels, 64, 96) if layout == "nchw" else (1, 64, 96, channels)
    normal: dict[str, Any] = {"scale": 1.0}
    if dtype != "uint8":
        normal = {"scale": 255.0, "mean": MEAN[:channels], "std": STD[:channels]}
    elif color == "gray":
        normal |= {"mean": (0.0,), "std": (1.0,)}
    look: dict[str, Any] = {"color": color, "layout": layout, **normal}
    card_input = InputCard((64, 96), name="picture", **look)
    network = networks.echo(tmp_path / "echo.onnx", shape, dtype)
    backend = settings().open(networks.card_for(network, card_input))
    pixels = photo()

    answer = feed(backend, card_input, pixels)["echo"]

    expected: NDArray[np.floating] = {
        "rgb": pixels[..., ::-1], "bgr": pixels, "gray": cv2.cvtColor(pixels, cv2.COLOR_BGR2GRAY)[..., None],
    }[color].astype(np.float64)  # fmt: skip
    expected = expected / card_input.scale
    if dtype != "uint8":
        expected = (expected - np.array(card_input.mean)) / np.array(card_input.std)
    if layout == "nchw":
        expected = expected.transpose(2, 0, 1)
    assert answer.dtype == (np.uint8 if dtype == "uint8" else np.float32)
    np.testing.assert_allclose(answer[0], expected, atol={"float16": 2e-3}.get(dtype, 2e-5))
    backend.close()


@pytest.mark.parametrize(
    "shape", [("batch", 3, "height", "width"), ("N", 3, "S", "S"), (1, 3, "h", 96), ("n", 3, 64, 96)]
)
def test_free_sizes_become_those_of_the_card(
    settings: Callable[..., BackendSettings], tmp_path: Path, shape: tuple[int | str, ...]
) -> None:
    card_input = InputCard((64, 96), name="picture")
    backend = settings().open(networks.card_for(networks.echo(tmp_path / "free.onnx", shape), card_input))
    spec = picture_spec(backend)
    assert (spec.height, spec.width) == (64, 96)
    assert feed(backend, card_input, photo())["echo"].shape == (1, 3, 64, 96)
    backend.close()


def test_a_fixed_batch_is_filled(settings: Callable[..., BackendSettings], tmp_path: Path) -> None:
    card_input = InputCard((64, 96), name="picture")
    backend = settings().open(
        networks.card_for(networks.echo(tmp_path / "batch.onnx", (2, 3, 64, 96)), card_input)
    )
    answer = feed(backend, card_input, photo())["echo"]
    assert answer.shape == (2, 3, 64, 96)
    np.testing.assert_array_equal(answer[0], answer[1])
    backend.close()


def test_answers_are_the_callers_to_keep(settings: Callable[..., BackendSettings], tmp_path: Path) -> None:
    card_input = InputCard((64, 96), name="picture")
    backend = settings().open(
        networks.card_for(networks.echo(tmp_path / "echo.onnx", (1, 3, 64, 96), twice=2.0), card_input)
    )
    first = feed(backend, card_input, photo())["echo"]
    kept = first.copy()
    feed(backend, card_input, np.zeros((64, 96, 3), np.uint8))
    backend.close()
    np.testing.assert_array_equal(first, kept)
    first[:] = 0  # and may be written to


def test_requests_have_memory_of_their_own(settings: Callable[..., BackendSettings], tmp_path: Path) -> None:
    card_input = InputCard((64, 96), name="picture")
    backend = settings(requests=2).open(
        networks.card_for(networks.echo(tmp_path / "echo.onnx", (1, 3, 64, 96)), card_input)
    )
    prepare = Preprocess(card_input, picture_spec(backend))
    with backend.request() as one, backend.request() as other:
        prepare(np.full((64, 96, 3), 10, np.uint8), None, one.picture)
        prepare(np.full((64, 96, 3), 250, np.uint8), None, other.picture)
        answers = [request.infer({})["echo"] for request in (one, other)]
        np.testing.assert_allclose(answers[0], 10 / 255, atol=1e-5)
        np.testing.assert_allclose(answers[1], 250 / 255, atol=1e-5)
        # what was written stays
        np.testing.assert_allclose(one.infer({})["echo"], 10 / 255, atol=1e-5)
    backend.close()


def test_as_many_threads_as_requests_each_get_their_own_answer(
    settings: Callable[..., BackendSettings], tmp_path: Path
) -> None:
    card_input = InputCard((64, 96), name="picture")
    network = networks.echo(tmp_path / "echo.onnx", (1, 3, 64, 96))
    backend = settings(requests=3).open(networks.card_for(network, card_input))
    assert backend.requests == 3
    together = threading.Barrier(3)

    def one(number: int) -> bool:
        together.wait(10)
        pixels = np.full((64, 96, 3), number, np.uint8)
        answers = [feed(backend, card_input, pixels)["echo"] for _ in range(20)]
        return all(np.allclose(answer, number / 255, atol=1e-5) for answer in answers)

    with ThreadPoolExecutor(3) as threads:
        assert all(threads.map(one, (10, 120, 250)))
    backend.close()


def test_more_threads_than_requests_wait_for_their_turn(
    settings: Callable[..., BackendSettings], tmp_path: Path
) -> None:
    card_input = InputCard((64, 96), name="picture")
    network = networks.echo(tmp_path / "echo.onnx", (1, 3, 64, 96))
    backend = settings(requests=1).open(networks.card_for(network, card_input))

    def one(number: int) -> bool:
        answer = feed(backend, card_input, np.full((64, 96, 3), number, np.uint8))["echo"]
        return bool(np.allclose(answer, number / 255, atol=1e-5))

    with ThreadPoolExecutor(7) as threads:
        assert all(threads.map(one, range(0, 250, 5)))
    backend.close()


def test_close_may_be_called_twice_and_ends_the_backend(
    settings: Callable[..., BackendSettings], tmp_path: Path
) -> None:
    card_input = InputCard((64, 96), name="picture")
    network = networks.echo(tmp_path / "echo.onnx", (1, 3, 64, 96))
    backend = settings().open(networks.card_for(network, card_input))
    backend.close()
    backend.close()
    with pytest.raises(BackendError, match="closed"):
        feed(backend, card_input, photo())


@pytest.mark.parametrize(
    "wrong",
    [
        lambda tensor: {"picture": tensor[..., :-1, :]},
        lambda tensor: {"picture": tensor[0]},
        lambda tensor: {"picture": tensor.astype(np.int64)},
        lambda tensor: {"other": tensor},
        lambda tensor: {"picture": tensor, "other": tensor},
        lambda tensor: {},  # noqa: ARG005 - one form for all
    ],
    ids=["shape", "rank", "type", "name", "one too many", "none"],
)
def test_tensors_that_are_not_its_inputs_are_refused(
    settings: Callable[..., BackendSettings],
    tmp_path: Path,
    wrong: Callable[[Tensor], dict[str, Tensor]],
) -> None:
    card_input = InputCard((64, 96), name="picture")
    network = networks.echo(tmp_path / "echo.onnx", (1, 3, 64, 96))
    backend = settings().open(networks.card_for(network, card_input))
    tensor, _ = Fresh(card_input, picture_spec(backend))(photo())
    with pytest.raises(BackendError, match=r"takes|given"):
        backend.infer(wrong(tensor))
    # and the backend is none the worse
    assert feed(backend, card_input, photo())["echo"].shape == (1, 3, 64, 96)
    backend.close()


def test_a_device_that_is_not_there_is_an_error_that_names_those_that_are(
    settings: Callable[..., BackendSettings], tmp_path: Path
) -> None:
    card = networks.card_for(
        networks.echo(tmp_path / "echo.onnx", (1, 3, 64, 96)), InputCard((64, 96), name="picture")
    )
    for device in ("NPU", "GPU", "Nonsense"):
        with pytest.raises(BackendError, match=rf"{device} here; devices on this machine: .*CPU"):
            settings(device=device).open(card)


def test_only_a_listed_fallback_is_taken_and_both_devices_are_told(
    settings: Callable[..., BackendSettings], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    card = networks.card_for(
        networks.echo(tmp_path / "echo.onnx", (1, 3, 64, 96)), InputCard((64, 96), name="picture")
    )
    backend = settings(device="NPU", fallback=("GPU", "CPU")).open(card)
    assert (backend.requested, backend.running) == ("NPU", "CPU")
    assert "fallback CPU" in caplog.text
    backend.close()


def test_the_running_device_is_the_requested_one(
    settings: Callable[..., BackendSettings], tmp_path: Path
) -> None:
    card = networks.card_for(
        networks.echo(tmp_path / "echo.onnx", (1, 3, 64, 96)), InputCard((64, 96), name="picture")
    )
    backend = settings().open(card)
    assert (backend.requested, backend.running) == ("CPU", "CPU")
    backend.close()


def test_a_file_that_is_no_network_is_a_model_error(
    settings: Callable[..., BackendSettings], tmp_path: Path
) -> None:
    network = tmp_path / "text.onnx"
    network.write_text("no network at all")
    with pytest.raises(ModelError, match=r"text\.onnx"):
        settings().open(networks.card_for(network, InputCard((64, 96), name="picture")))


def test_a_damaged_name_in_a_network_is_a_model_error_and_prints_nothing(
    settings: Callable[..., BackendSettings], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    # ONNX Runtime would print "Falling back" on standard output, among the JSON
    network = networks.echo(tmp_path / "echo.onnx", (1, 3, 64, 96))
    network.write_bytes(network.read_bytes().replace(b"Mul", b"\xf0\x9fl"))
    with pytest.raises(ModelError, match=r"echo\.onnx"):
        settings().open(networks.card_for(network, InputCard((64, 96), name="picture")))
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("name", ["yolox_nano", "A01", "A04", "A27"])
def test_every_backend_gives_the_same_answer(shared: Path, tmp_path: Path, name: str) -> None:
    if name == "yolox_nano":
        (tmp_path / "model.yaml").write_text(
            f"format: 1\nname: x\nnetwork: {shared}/assets/yolox_nano/yolox_nano.onnx\ndecoder: yolox-raw\n"
            f"labels_file: {shared}/assets/coco80.txt\n"
            "input: {align: top_left, color: bgr, scale: 1}\n"
        )
        card = load_model(tmp_path)
    else:
        card = load_model(shared / "cases/open" / name / "model.onnx")
    pixels = cv2.imread(str(shared / "assets/photos/pets.jpg"))
    assert pixels is not None
    answers = {}
    for backend_name in BACKENDS:
        backend = resolve(BACKENDS, backend_name)(type=backend_name).open(card)
        answers[backend_name] = feed(backend, card.input, np.asarray(pixels, np.uint8))
        backend.close()
    one, other = answers.values()
    assert one.keys() == other.keys()
    half = name == "A27"
    for output in one:
        assert one[output].dtype == other[output].dtype
        np.testing.assert_allclose(
            one[output], other[output], atol=0.5 if half else 2e-3, rtol=2e-3 if half else 1e-3
        )
