"""Which devices the runtimes find on this machine."""

from __future__ import annotations

from edge_infer.backends.onnxruntime import devices_of
from edge_infer.backends.openvino import the_core


def present() -> dict[str, tuple[str, ...]]:
    """Backend -> its devices, as ``device:`` names them. BackendError where OpenVINO cannot be loaded."""
    import onnxruntime

    return {"onnxruntime": devices_of(onnxruntime), "openvino": tuple(the_core().available_devices)}


def has_bf16(device: str) -> bool:
    """Whether an OpenVINO device computes in bfloat16."""
    return "BF16" in the_core().get_property(device, "OPTIMIZATION_CAPABILITIES")
