"""What inference would feed to a network, frame by frame."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from edge_infer.quantize import Job
from edge_infer.tensor import Tensor


class Given:
    """The job's calibration frames: one dict input -> tensor each; read from the disk when asked for."""

    def __init__(self, job: Job) -> None:
        self._picture = job.picture
        self._tensors = np.load(job.tensors, mmap_mode="r")
        with np.load(job.others) as others:
            self._others = {name: others[name] for name in others.files}

    def __len__(self) -> int:
        return len(self._tensors)

    def __iter__(self) -> Iterator[dict[str, Tensor]]:
        for tensor in self._tensors:
            yield {self._picture: np.ascontiguousarray(tensor), **self._others}
