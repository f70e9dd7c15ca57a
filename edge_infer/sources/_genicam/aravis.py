"""An open GigE Vision or USB3 Vision camera as libaravis has it. Knows GObject, nothing of frames or YAML."""

from __future__ import annotations

import contextlib
import ctypes as c
import socket
import threading
import time
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from edge_infer.sources._genicam.library import PTR, AravisError, library

GVCP_PORT = 3956

COMPLETE, EMPTY = 0, 1
"""The buffer status of a whole picture, and of none: a stray packet."""
STATUS = {
    -1: "unknown",
    2: "the rest of it did not arrive in time",
    3: "packets of it were lost on the way",
    4: "packets of it were wrong",
    5: "it is larger than the camera said",
    6: "it is not complete",
    7: "the transfer was broken off",
}
"""Why a buffer is not a whole picture, by its status."""

_SETTLE_S = 0.05
_STREAMS = 4
"""How often a stream is made that no stray packet reached; the last one without the raw socket."""
_NO_RAW_SOCKET = 1
_CACHE_OFF = 0
_CONTINUOUS = 0
_PACKET_SIZE_AS_SET = 0
_SWAPPED = 2
_IMAGE_PAYLOADS = frozenset({1, 5, 10})  # image, image with chunks, parts of which the first is the image


class Found(NamedTuple):
    """A camera that answered a search."""

    id: str
    vendor: str
    model: str
    serial: str
    address: str
    """IPv4 of a network camera, else the USB identity."""
    protocol: str
    """``GigEVision`` or ``USB3Vision``."""

    def __str__(self) -> str:
        return f"{self.address} ({self.vendor} {self.model}, serial {self.serial}, id {self.id})"


class Image(NamedTuple):
    """One buffer as it arrived; ``data`` is the library's own memory until the buffer is given back."""

    status: int
    frame_id: int | None
    """None where the picture's first packet, which holds it, was lost."""
    wall_ns: int
    """When its first packet arrived, nanoseconds since 1970; 0 where that was lost."""
    pixel_format: int
    """PFNC number."""
    width: int
    height: int
    padding: int
    """Bytes behind each row."""
    data: NDArray[np.uint8]
    """(bytes,)."""


_searching = threading.Lock()


def find() -> list[Found]:
    """Every camera that answers; takes a second. The library's list is one for the whole process."""
    lib = library()

    def text(what: str, index: int) -> str:
        return (lib(f"arv_get_device_{what}", index) or b"").decode(errors="replace")

    with _searching:
        lib("arv_update_device_list")
        return [
            Found(*(text(what, i) for what in ("id", "vendor", "model", "serial_nbr", "address", "protocol")))
            for i in range(lib("arv_get_n_devices"))
        ]


class Camera:
    """An open camera. One thread at a time; only `execute` may be called while another one takes images."""

    def __init__(self, found_id: str | None = None, address: str | None = None) -> None:
        """By the id of a search, or a network camera by its IPv4 ``address``. AravisError."""
        self._lib = library()
        self._stream: int | None = None
        self._camera: int | None = (
            self._at(address) if address is not None else self._lib("arv_camera_new", _text(found_id or ""))
        )
        self._device: int = self._lib("arv_camera_get_device", self._camera)
        # what is read back must come from the camera
        self._lib("arv_device_set_register_cache_policy", self._device, _CACHE_OFF)
        self.is_network: bool = bool(self._lib("arv_camera_is_gv_device", self._camera))
        self._losses: int = self._lib("g_malloc0", c.sizeof(c.c_int))
        self._lib(
            "g_signal_connect_data",
            self._device,
            b"control-lost",
            self._lib.count,
            self._losses,
            None,
            _SWAPPED,
        )

    def _at(self, address: str) -> int:
        # the library's own way would search all interfaces, under a lock that all cameras share
        parts = [
            self._lib("g_inet_address_new_from_string", _text(one)) for one in (_way_to(address), address)
        ]
        try:
            device = self._lib("arv_gv_device_new", *parts)
        finally:
            for part in parts:
                self._lib("g_object_unref", part)
        try:
            return int(self._lib("arv_camera_new_with_device", device))
        finally:
            self._lib("g_object_unref", device)

    @property
    def is_ours(self) -> bool:
        """False where another program controls the camera."""
        return not self.is_network or bool(self._lib("arv_gv_device_is_controller", self._device))

    @property
    def is_lost(self) -> bool:
        """The camera no longer answers, or somebody else took it."""
        return bool(self._lib("g_atomic_int_get", self._losses))

    def register(self, address: int) -> int:
        """A bootstrap register of a network camera."""
        value = c.c_uint32()
        self._lib("arv_device_read_register", self._device, address, c.byref(value))
        return value.value

    def device(self, name: str, *arguments: Any) -> Any:
        """Call ``arv_device_NAME`` with this camera's device."""
        return self._lib(f"arv_device_{name}", self._device, *arguments)

    def camera(self, name: str, *arguments: Any) -> Any:
        """Call ``arv_camera_NAME``."""
        return self._lib(f"arv_camera_{name}", self._camera, *arguments)

    def kind(self, feature: str) -> str | None:
        """What sort of value a feature has; None where the camera has no such feature."""
        node = self.device("get_feature", _text(feature))
        if not node:
            return None
        for kind in ("command", "enumeration", "boolean", "string", "float", "integer"):
            if self._lib("g_type_check_instance_is_a", node, self._lib(f"arv_gc_{kind}_get_type")):
                return kind
        return "other"

    def entries(self, feature: str) -> list[str]:
        """What an enumeration can be set to now."""
        count = c.c_uint()
        values = self.device(
            "dup_available_enumeration_feature_values_as_strings", _text(feature), c.byref(count)
        )
        try:
            return [values[i].decode(errors="replace") for i in range(count.value)]
        finally:
            self._lib("g_free", c.cast(values, PTR))

    def execute(self, command: str) -> None:
        """Run a command feature."""
        self.device("execute_command", _text(command))

    # -- images

    def start(self, buffers: int, socket_buffer: int, *, packet_size_as_set: bool) -> None:
        """Begin to take images into so many buffers."""
        if packet_size_as_set:
            self.camera("gv_set_packet_size_adjustment", _PACKET_SIZE_AS_SET)
        self.camera("set_acquisition_mode", _CONTINUOUS)
        size = self.camera("get_payload")
        self._stream = self._create_stream(socket_buffer)
        for _ in range(buffers):
            self.give_back(self._lib("arv_buffer_new_allocate", size))
        self.camera("start_acquisition")

    def _create_stream(self, socket_buffer: int) -> int:
        """One that no stray packet reached.

        Its raw socket listens for a moment before the filter is set, and takes any packet of this network for
        one of a picture: it makes pictures of them, and the camera's own may look late after their numbers.
        """
        for attempt in range(_STREAMS):
            if attempt == _STREAMS - 1:
                self.camera("gv_set_stream_options", _NO_RAW_SOCKET)
            stream = int(self.camera("create_stream", None, None))
            if not self.is_network:
                break
            self._lib.set_int(stream, "socket-buffer-size", socket_buffer)
            time.sleep(_SETTLE_S)
            if not self._lib("arv_stream_get_info_uint64_by_name", stream, b"n_received_packets"):
                break
            if attempt < _STREAMS - 1:
                self._lib("g_object_unref", stream)
        return stream

    def stop(self) -> None:
        """Send no more images, as far as it can be told."""
        with contextlib.suppress(AravisError):
            self.camera("stop_acquisition")

    def take(self, timeout_s: float) -> int | None:
        """The oldest buffer that is done; it must be given back."""
        if timeout_s <= 0:
            buffer = self._lib("arv_stream_try_pop_buffer", self._stream)
        else:
            buffer = self._lib("arv_stream_timeout_pop_buffer", self._stream, int(timeout_s * 1e6))
        return int(buffer) if buffer else None

    def look(self, buffer: int) -> Image:
        """What is in a buffer."""
        lib = self._lib
        status, size = lib("arv_buffer_get_status", buffer), c.c_size_t()
        frame_id, wall_ns = (
            lib(f"arv_buffer_get_{what}", buffer) for what in ("frame_id", "system_timestamp")
        )
        known = frame_id if wall_ns else None
        is_image = lib("arv_buffer_get_payload_type", buffer) in _IMAGE_PAYLOADS
        if status != COMPLETE or not is_image or not lib("arv_buffer_get_n_parts", buffer):
            return Image(
                status or -1, known, wall_ns, 0, 0, 0, 0, np.empty(0, np.uint8)
            )  # fmt: skip
        start = lib("arv_buffer_get_image_data", buffer, c.byref(size))
        padding = c.c_int()
        lib("arv_buffer_get_image_padding", buffer, c.byref(padding), c.byref(c.c_int()))
        number, width, height = (
            int(lib(f"arv_buffer_get_image_{what}", buffer)) for what in ("pixel_format", "width", "height")
        )
        data = np.ctypeslib.as_array(c.cast(start, c.POINTER(c.c_uint8)), shape=(size.value,))
        return Image(status, known, wall_ns, number, width, height, padding.value, data)

    def packets_lost(self) -> int | None:
        """On the way from a network camera, resent ones not counted, since `start`."""
        if not self.is_network:
            return None
        lost = c.c_uint64()
        self._lib("arv_gv_stream_get_statistics", self._stream, c.byref(c.c_uint64()), c.byref(lost))
        return lost.value

    def give_back(self, buffer: int) -> None:
        """For the next image."""
        # where the first packet of that one is lost, the numbers of this one would stay in it
        self._lib("arv_buffer_set_frame_id", buffer, 0)
        self._lib("arv_buffer_set_system_timestamp", buffer, 0)
        self._lib("arv_stream_push_buffer", self._stream, buffer)

    def close(self) -> None:
        """Let the camera go; with one that does not answer that takes some ten seconds."""
        if self._camera is None:
            return
        stream, camera, self._stream, self._camera = self._stream, self._camera, None, None
        if stream is not None:
            if not self.is_lost:
                # one that is gone cannot be stopped
                with contextlib.suppress(AravisError):
                    self._lib("arv_camera_stop_acquisition", camera)
            # with all its buffers
            self._lib("g_object_unref", stream)
        self._lib("g_object_unref", camera)
        # the last reference to the device was the camera's: nobody counts any more
        self._lib("g_free", self._losses)


def _way_to(address: str) -> str:
    """The address of this machine that the kernel would use to talk to the camera. AravisError."""
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect((address, GVCP_PORT))
            return str(probe.getsockname()[0])
    except OSError as error:
        raise AravisError(f"no way to {address}: {error.strerror}") from error


def _text(value: str) -> bytes:
    return value.encode()
