"""NNCF: an OpenVINO IR with 8-bit weights and activations."""

from __future__ import annotations

import logging
from pathlib import Path

from edge_infer.quantize import Job
from edge_infer.quantize.given import Given


def quantise(job: Job) -> None:
    """Activations symmetric: the fastest."""
    _quantise(job, "performance")


def quantise_mixed(job: Job) -> None:
    """Activations as they lie: exact behind SiLU and the like, whose answers are mostly above zero."""
    _quantise(job, "mixed")


def _quantise(job: Job, preset: str) -> None:
    import nncf
    import openvino

    nncf.set_log_level(logging.ERROR)
    network = openvino.Core().read_model(job.network)
    given = Given(job)
    data = nncf.Dataset(given)
    quantised = nncf.quantize(network, data, preset=nncf.QuantizationPreset(preset), subset_size=len(given))
    out = Path(job.out)
    # the .xml last: it is what is looked for
    openvino.save_model(quantised, out, compress_to_fp16=False)
