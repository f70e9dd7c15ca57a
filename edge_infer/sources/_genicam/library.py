"""libaravis's functions through ctypes, with their types and their errors.

No callback into Python is ever registered: the library calls from threads of its own, also while the
interpreter ends.
"""

from __future__ import annotations

import ctypes as c
import functools
from typing import Any

LIBRARY = "libaravis-0.8.so.0"

PTR = c.c_void_p
STR = c.c_char_p


class AravisError(Exception):
    """What the library says went wrong."""


class _GError(c.Structure):
    _fields_ = (("domain", c.c_uint32), ("code", c.c_int), ("message", c.c_char_p))


_GERROR = c.POINTER(_GError)


class _GValue(c.Structure):
    _fields_ = (("type", c.c_size_t), ("data", c.c_uint64 * 2))


_G_TYPE_INT = 6 << 2

# name: result, arguments; those of _RAISING take a GError** behind them
_RAISING: dict[str, tuple[Any, list[Any]]] = {
    "arv_camera_new": (PTR, [STR]),
    "arv_camera_new_with_device": (PTR, [PTR]),
    "arv_camera_clear_triggers": (None, [PTR]),
    "arv_camera_create_stream": (PTR, [PTR, PTR, PTR]),
    "arv_camera_get_exposure_time": (c.c_double, [PTR]),
    "arv_camera_get_exposure_time_bounds": (None, [PTR, PTR, PTR]),
    "arv_camera_get_frame_rate": (c.c_double, [PTR]),
    "arv_camera_get_frame_rate_bounds": (None, [PTR, PTR, PTR]),
    "arv_camera_get_payload": (c.c_uint, [PTR]),
    "arv_camera_gv_get_packet_delay": (c.c_int64, [PTR]),
    "arv_camera_gv_get_packet_size": (c.c_uint, [PTR]),
    "arv_camera_gv_set_packet_delay": (None, [PTR, c.c_int64]),
    "arv_camera_gv_set_packet_size": (None, [PTR, c.c_int]),
    "arv_camera_set_acquisition_mode": (None, [PTR, c.c_int]),
    "arv_camera_set_exposure_time": (None, [PTR, c.c_double]),
    "arv_camera_set_frame_rate": (None, [PTR, c.c_double]),
    "arv_camera_start_acquisition": (None, [PTR]),
    "arv_camera_stop_acquisition": (None, [PTR]),
    "arv_device_dup_available_enumeration_feature_values_as_strings": (
        c.POINTER(STR),
        [PTR, STR, c.POINTER(c.c_uint)],
    ),
    "arv_device_execute_command": (None, [PTR, STR]),
    "arv_device_get_boolean_feature_value": (c.c_int, [PTR, STR]),
    "arv_device_get_float_feature_bounds": (None, [PTR, STR, PTR, PTR]),
    "arv_device_get_float_feature_increment": (c.c_double, [PTR, STR]),
    "arv_device_get_float_feature_value": (c.c_double, [PTR, STR]),
    "arv_device_get_integer_feature_bounds": (None, [PTR, STR, PTR, PTR]),
    "arv_device_get_integer_feature_increment": (c.c_int64, [PTR, STR]),
    "arv_device_get_integer_feature_value": (c.c_int64, [PTR, STR]),
    "arv_device_get_string_feature_value": (STR, [PTR, STR]),
    "arv_device_is_feature_available": (c.c_int, [PTR, STR]),
    "arv_device_read_register": (c.c_int, [PTR, c.c_uint64, c.POINTER(c.c_uint32)]),
    "arv_device_set_boolean_feature_value": (None, [PTR, STR, c.c_int]),
    "arv_device_set_float_feature_value": (None, [PTR, STR, c.c_double]),
    "arv_device_set_integer_feature_value": (None, [PTR, STR, c.c_int64]),
    "arv_device_set_string_feature_value": (None, [PTR, STR, STR]),
    "arv_gv_device_new": (PTR, [PTR, PTR]),
}
_PLAIN: dict[str, tuple[Any, list[Any]]] = {
    "arv_buffer_get_frame_id": (c.c_uint64, [PTR]),
    "arv_buffer_get_image_data": (PTR, [PTR, c.POINTER(c.c_size_t)]),
    "arv_buffer_get_image_height": (c.c_int, [PTR]),
    "arv_buffer_get_image_padding": (None, [PTR, c.POINTER(c.c_int), c.POINTER(c.c_int)]),
    "arv_buffer_get_image_pixel_format": (c.c_uint32, [PTR]),
    "arv_buffer_get_image_width": (c.c_int, [PTR]),
    "arv_buffer_get_n_parts": (c.c_uint, [PTR]),
    "arv_buffer_get_payload_type": (c.c_int, [PTR]),
    "arv_buffer_get_status": (c.c_int, [PTR]),
    "arv_buffer_get_system_timestamp": (c.c_uint64, [PTR]),
    "arv_buffer_new_allocate": (PTR, [c.c_size_t]),
    "arv_buffer_set_frame_id": (None, [PTR, c.c_uint64]),
    "arv_buffer_set_system_timestamp": (None, [PTR, c.c_uint64]),
    "arv_camera_get_device": (PTR, [PTR]),
    "arv_camera_gv_set_packet_size_adjustment": (None, [PTR, c.c_int]),
    "arv_camera_gv_set_stream_options": (None, [PTR, c.c_int]),
    "arv_camera_is_gv_device": (c.c_int, [PTR]),
    "arv_device_get_feature": (PTR, [PTR, STR]),
    "arv_device_get_feature_access_mode": (c.c_int, [PTR, STR]),
    "arv_device_set_register_cache_policy": (None, [PTR, c.c_int]),
    "arv_get_device_address": (STR, [c.c_uint]),
    "arv_get_device_id": (STR, [c.c_uint]),
    "arv_get_device_model": (STR, [c.c_uint]),
    "arv_get_device_protocol": (STR, [c.c_uint]),
    "arv_get_device_serial_nbr": (STR, [c.c_uint]),
    "arv_get_device_vendor": (STR, [c.c_uint]),
    "arv_get_n_devices": (c.c_uint, []),
    "arv_gv_device_is_controller": (c.c_int, [PTR]),
    "arv_gv_stream_get_statistics": (None, [PTR, c.POINTER(c.c_uint64), c.POINTER(c.c_uint64)]),
    "arv_stream_get_info_uint64_by_name": (c.c_uint64, [PTR, STR]),
    "arv_stream_push_buffer": (None, [PTR, PTR]),
    "arv_stream_timeout_pop_buffer": (PTR, [PTR, c.c_uint64]),
    "arv_stream_try_pop_buffer": (PTR, [PTR]),
    "arv_update_device_list": (None, []),
    **{f"arv_gc_{kind}_get_type": (c.c_size_t, []) for kind in (
        "boolean", "command", "enumeration", "float", "integer", "string"
    )},
}  # fmt: skip
_GLIB: dict[str, tuple[Any, list[Any]]] = {
    "g_error_free": (None, [_GERROR]),
    "g_free": (None, [PTR]),
    "g_malloc0": (PTR, [c.c_size_t]),
    "g_atomic_int_get": (c.c_int, [PTR]),
}
_GOBJECT: dict[str, tuple[Any, list[Any]]] = {
    "g_object_set_property": (None, [PTR, STR, PTR]),
    "g_object_unref": (None, [PTR]),
    "g_signal_connect_data": (c.c_ulong, [PTR, STR, PTR, PTR, PTR, c.c_int]),
    "g_type_check_instance_is_a": (c.c_int, [PTR, c.c_size_t]),
    "g_value_init": (PTR, [PTR, c.c_size_t]),
    "g_value_set_int": (None, [PTR, c.c_int]),
}
_GIO: dict[str, tuple[Any, list[Any]]] = {"g_inet_address_new_from_string": (PTR, [STR])}


class Library:
    """The functions of the table above, with their types; those that fail raise AravisError."""

    def __init__(self) -> None:
        aravis, self._glib = c.CDLL(LIBRARY), c.CDLL("libglib-2.0.so.0")
        gobject, gio = c.CDLL("libgobject-2.0.so.0"), c.CDLL("libgio-2.0.so.0")
        self._functions: dict[str, Any] = {}
        for library, table in (
            (aravis, _PLAIN), (self._glib, _GLIB), (gobject, _GOBJECT), (gio, _GIO)
        ):  # fmt: skip
            for name, (result, arguments) in table.items():
                self._bind(library, name, result, arguments)
        for name, (result, arguments) in _RAISING.items():
            self._bind(aravis, name, result, [*arguments, c.POINTER(_GERROR)])
        # a native function: safe in any thread, at any time
        self.count = c.cast(self._glib.g_atomic_int_inc, PTR)

    def _bind(self, library: c.CDLL, name: str, result: Any, arguments: list[Any]) -> None:
        function = library[name]
        function.restype, function.argtypes = result, arguments
        self._functions[name] = function

    def __call__(self, name: str, *arguments: Any) -> Any:
        function = self._functions[name]
        if name not in _RAISING:
            return function(*arguments)
        error = _GERROR()
        answer = function(*arguments, c.byref(error))
        if error:
            text = error.contents.message.decode(errors="replace")
            self("g_error_free", error)
            raise AravisError(text)
        return answer

    def set_int(self, instance: int, name: str, value: int) -> None:
        """A property of a GObject."""
        holder = _GValue()
        self("g_value_init", c.byref(holder), _G_TYPE_INT)
        self("g_value_set_int", c.byref(holder), value)
        self("g_object_set_property", instance, name.encode(), c.byref(holder))


@functools.cache
def library() -> Library:
    """OSError where it is not installed."""
    return Library()
