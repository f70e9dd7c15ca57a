"""What a network file says about itself, read without a runtime."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from edge_infer.errors import ModelError
from edge_infer.tensor import TensorSpec

_LFS_POINTER = b"version https://git-lfs"
MOVES_VALUES = frozenset(
    {
        "Cast", "Convert", "DequantizeLinear", "Dropout", "FakeQuantize", "Flatten", "Identity",
        "Interpolate", "QuantizeLinear", "Reshape", "Resize", "Result", "Squeeze", "Transpose",
        "Unsqueeze", "Upsample",
    }
)  # fmt: skip
"""Operations of either format behind which values are what they were."""

_COPY_AGAIN = "copy or export it again"


@dataclass(frozen=True, slots=True)
class NetworkFile:
    """A network that can be loaded, as far as its file tells."""

    path: Path
    format: Literal["onnx", "ir"]
    sha256: str
    """Of ``path`` and, behind it, of the files that hold its weights, by name: two networks that differ only
    in their weights are two."""
    written_for: str
    """What a runtime must know to run it: ``ONNX opset 17`` or ``OpenVINO IR 11``."""
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    last: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Output -> the operation that computes it, those that only move values around left out."""
    exporter: Mapping[str, object] = field(default_factory=lambda: MappingProxyType({}))
    """What the exporter wrote beside the graph: metadata_props, metadata.yaml or rt_info/framework."""
    weights: tuple[Path, ...] = ()
    """The other files that it consists of."""
    model_info: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """What Model API writes: rt_info/model_info of an IR, ``model_info KEY`` of an ONNX file."""


def read_network(path: Path) -> NetworkFile:
    """Read ``path``; ModelError names what is wrong with the file and how to mend it."""
    suffix = path.suffix.lower()
    refuse_what_is_no_network(path)
    if suffix == ".onnx":
        from edge_infer.model.onnx_file import read_onnx

        return read_onnx(path)
    if suffix == ".xml":
        from edge_infer.model.ir_file import read_ir

        return read_ir(path)
    raise ModelError(
        f"{path} is not a network that can be used: {suffix or 'no suffix'}",
        hint="export it to ONNX (.onnx) or OpenVINO IR (.xml with its .bin)",
    )


def refuse_what_is_no_network(path: Path) -> None:
    """ModelError for what a download or a copy leaves behind instead of a network or its weights."""
    try:
        if path.is_dir():
            raise ModelError(
                f"{path} is a folder, not a network file", hint="name the .onnx or .xml file in it"
            )
        if path.exists() and not path.is_file():
            raise ModelError(f"{path} is not a regular file", hint="name the .onnx or .xml file")
        size = path.stat().st_size
        with path.open("rb") as file:
            start = file.read(512)
            # weights may well begin with zeros
            empty = not start.strip(b"\0") and not any(
                block.strip(b"\0") for block in iter(partial(file.read, 1 << 20), b"")
            )
    except FileNotFoundError as error:
        raise ModelError(f"{path} does not exist", hint="check the path, or export the network") from error
    except OSError as error:
        raise ModelError(
            f"cannot read {path}: {error.strerror}", hint="check the path and the file's rights"
        ) from error
    if empty:
        what = "is empty (0 bytes)" if size == 0 else f"holds only zeros ({size:,} bytes)"
        raise ModelError(f"{path} {what}", hint=_COPY_AGAIN)
    if start.startswith(_LFS_POINTER):
        raise ModelError(
            f"{path} is a Git LFS pointer ({size:,} bytes), not the file itself",
            hint="run `git lfs pull` where it was cloned, then copy it again",
        )
    text = start.lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if text.startswith((b"<!doctype html", b"<html")):
        raise ModelError(
            f"{path} is an HTML page ({size:,} bytes), not a network: the download gave an error page",
            hint="download it again and look at the page in a browser",
        )
    if start.startswith(b"PK\x03\x04"):
        raise ModelError(
            f"{path} is a zip archive ({size:,} bytes), perhaps a PyTorch checkpoint",
            hint="export it to ONNX, or unpack it",
        )


def damaged(path: Path, kind: str, cause: str) -> ModelError:
    """The error for a file that is cut or overwritten."""
    return ModelError(
        f"{path} is damaged or cut short ({path.stat().st_size:,} bytes): not a complete {kind}: {cause}",
        hint=_COPY_AGAIN,
    )


def sha256(path: Path, weights: Sequence[Path] = ()) -> str:
    """Hexadecimal, of the files one after the other: ``cat model.xml model.bin | sha256sum``."""
    digest = hashlib.sha256()
    for part in (path, *weights):
        with part.open("rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()
