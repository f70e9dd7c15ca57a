"""NNCF: an OpenVINO IR with 8-bit weights and activations."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from edge_infer.quantize import Job
from edge_infer.quantize.given import Given

if TYPE_CHECKING:
    import openvino

_GATES = frozenset(("Sigmoid", "Swish", "Multiply"))
"""Of SiLU and of attention: in 8 bits they cost YOLOX-nano two findings of five and gain no time."""
_WEIGHTED = frozenset(
    ("Convolution", "GroupConvolution", "ConvolutionBackpropData", "GroupConvolutionBackpropData", "MatMul")
)
_DATA = frozenset(("Constant", "Parameter", "Result"))


def quantise(job: Job) -> None:
    """All but gates."""
    _quantise(job, lambda operation: operation.get_type_name() in _GATES)


def quantise_dense(job: Job) -> None:
    """Only operations with many weights: adding and joining in 8 bits may lose too much, and OpenVINO's CPU
    plug-in computes depthwise convolutions in float anyway, with a conversion before each.
    """
    _quantise(job, lambda operation: operation.get_type_name() not in _WEIGHTED or _is_depthwise(operation))


def _quantise(job: Job, in_float: Callable[[openvino.Node], bool]) -> None:
    import nncf
    import openvino

    nncf.set_log_level(logging.ERROR)
    network = openvino.Core().read_model(job.network)
    given = Given(job)
    kept = nncf.IgnoredScope(names=list(_named(network, in_float)), validate=False)
    quantised = nncf.quantize(
        network,
        nncf.Dataset(given),
        # activations with a zero point: behind SiLU most of them lie above zero
        preset=nncf.QuantizationPreset.MIXED,
        subset_size=len(given),
        ignored_scope=kept,
    )
    openvino.save_model(quantised, job.out, compress_to_fp16=False)


def _named(network: openvino.Model, wanted: Callable[[openvino.Node], bool]) -> Iterator[str]:
    for operation in network.get_ordered_ops():
        if operation.get_type_name() not in _DATA and wanted(operation):
            yield operation.get_friendly_name()


def _is_depthwise(operation: openvino.Node) -> bool:
    """Each channel by itself."""
    if operation.get_type_name() != "GroupConvolution":
        return False
    # groups, channels out, channels in of each, then the kernel
    return list(operation.input(1).get_shape())[1:3] == [1, 1]
