"""Which devices the runtimes find on this machine."""

from __future__ import annotations

from edge_infer.backends.openvino import _core as core

_NOT_A_DEVICE = "Azure"
_PROVIDER = "ExecutionProvider"


def present() -> dict[str, tuple[str, ...]]:
    """Backend -> its devices, as ``device:`` names them. BackendError where OpenVINO cannot be loaded."""
    import onnxruntime

    providers = [name.removesuffix(_PROVIDER) for name in onnxruntime.get_available_providers()]
    return {
        "onnxruntime": tuple(name for name in providers if name != _NOT_A_DEVICE),
        "openvino": tuple(core().available_devices),
    }


def has_bf16(device: str) -> bool:
    """Whether an OpenVINO device computes in bfloat16."""
    return "BF16" in core().get_property(device, "OPTIMIZATION_CAPABILITIES")
