"""What the figures of a benchmark belong to."""

from __future__ import annotations

import os
import platform
import re
from importlib.metadata import version
from pathlib import Path

from edge_infer import cores, cpu

_FLAGS = (
    "avx2", "fma", "avx512f", "avx512_vnni", "avx_vnni", "avx512_bf16", "amx_bf16", "amx_int8", "asimd",
    "i8mm", "bf16",
)  # fmt: skip
"""Those that decide how fast convolutions are."""
_PACKAGES = ("openvino", "onnxruntime", "opencv-python-headless", "numpy", "nncf")


def machine(load: float) -> list[str]:
    """Lines for a page; ``load``: the load average before anything was measured."""
    processor = cpu.look()
    has = processor.flags or frozenset()
    memory = re.search(r"^MemTotal:\s+(\d+)", Path("/proc/meminfo").read_text(encoding="ascii"), re.MULTILINE)
    virtual = "; a virtual machine" if "hypervisor" in has else ""
    return [
        f"{cores.usable()} of {os.cpu_count()} cores of {processor.model}{virtual}",
        f"of its instructions: {', '.join(one for one in _FLAGS if one in has) or 'none that matter'}",
        f"{int(memory[1]) / 1e6 if memory else 0:.0f} GB of memory",
        f"Linux {platform.release()}, Python {platform.python_version()}",
        ", ".join(f"{one} {version(one)}" for one in _PACKAGES),
        f"load average before: {load:.1f} (what else the machine did)",
    ]
