"""What the video library decodes, as honest pixels: shared by recordings and network cameras."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import NDArray

from edge_infer.errors import SourceError

if TYPE_CHECKING:
    from fractions import Fraction

    from av import VideoFrame


class Pixels:
    """Turns decoded frames into BGR pixels, the way up a person sees them."""

    def __init__(self) -> None:
        from av.video.reformatter import VideoReformatter

        # one for all frames: it keeps the tables of the conversion
        self._reformatter = VideoReformatter()

    def of(self, frame: VideoFrame) -> NDArray[np.uint8]:
        """(height, width, 3), read-only: no copy but where the video says that it lies turned."""
        import av

        try:
            converted = self._reformatter.reformat(frame, format="bgr24", threads=1)
        except av.FFmpegError as error:
            raise SourceError(
                f"pixels of the kind {frame.format.name} cannot be shown", hint="record or send yuv420p"
            ) from error
        pixels = cast("NDArray[np.uint8]", converted.to_ndarray())
        quarters = round(frame.rotation / 90) % 4
        if quarters:
            pixels = np.ascontiguousarray(np.rot90(pixels, quarters))
        pixels.flags.writeable = False
        return pixels


def seconds(frame: VideoFrame, time_base: Fraction | None) -> float | None:
    """The frame's own time, ``time_base`` being its stream's; None where the video gives none."""
    return None if frame.pts is None or time_base is None else float(frame.pts * time_base)


class Damage:
    """Whether a decoded frame may be trusted.

    A frame is built on the ones before it: once data was lost, every frame is suspect until a key frame
    that was decoded whole, whether or not the decoder noticed.
    """

    def __init__(self) -> None:
        self._reason: str | None = None
        self._since: int | None = None

    def lose(self, reason: str, pts: int | None) -> None:
        """Data was lost at ``pts``; frames come out of the decoder later than data goes in."""
        self._reason, self._since = reason, pts

    def of(self, frame: VideoFrame) -> str | None:
        """Why ``frame`` must not be judged, else None."""
        if frame.is_corrupt:
            self.lose("the decoder found the picture damaged", frame.pts)
        elif self._reason and frame.key_frame and self._is_later(frame.pts):
            self._reason = None
        return self._reason

    def _is_later(self, pts: int | None) -> bool:
        return self._since is None or pts is None or pts > self._since
