"""``snapshot``: the newest picture as a JPEG that the broker takes."""

from __future__ import annotations

from edge_infer.errors import DeliveryError
from edge_infer.evidence.pictures import JPEG, Encoded, encode, encode_all, shrunk
from edge_infer.frame import Frame
from edge_infer.messages.command import Snapshot
from edge_infer.messages.reply_data import PictureSent
from edge_infer.remote.answer import Answer, RefusedError
from edge_infer.remote.command import Command
from edge_infer.remote.reach import Reach


def snapshot(request: Snapshot, command: Command, reach: Reach) -> Answer:
    """Answered when the picture is on its way; the two may come in either order."""
    frame, picture = _drawn(command.at, reach) if request.kind == "drawn" else _raw(command.at, reach)
    small = shrunk(picture, reach.publisher.image_limit)
    topic = f"{reach.prefix}/{command.at}/image/snapshot"
    sent = small is not None and reach.publisher.image(
        topic,
        small.data,
        content_type=JPEG,
        user=(("kind", picture.kind), ("capturedAt", frame.captured_at.isoformat())),
    )
    if small is None or not sent:
        raise DeliveryError("the broker would not take the picture", hint="see mqtt.max_image_bytes")
    data = PictureSent(
        topic=topic,
        sha256=small.sha256,
        width=small.width,
        height=small.height,
        content_type=JPEG,
        captured_at=frame.captured_at,
        frame_seq=frame.seq,
    )
    return Answer("ok", "done", f"published on {topic}", data.model_dump(mode="json", by_alias=True))


def _raw(station: str, reach: Reach) -> tuple[Frame, Encoded]:
    frame = reach.control.newest_frame(station)
    if frame is None:
        raise RefusedError("no_frame", "the camera gave no frame yet")
    return frame, encode("raw", frame.pixels)


def _drawn(station: str, reach: Reach) -> tuple[Frame, Encoded]:
    inspected = reach.recent.inspected(station)
    if inspected is None:
        raise RefusedError("no_frame", "nothing was inspected since the start")
    pictures = encode_all(inspected.result, inspected.scene)
    return inspected.scene.frame, next(one for one in pictures if one.kind == "drawn")
