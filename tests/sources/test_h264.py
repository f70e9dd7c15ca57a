"""Missing pictures of an H.264 stream, on streams of a real encoder."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest

from edge_infer.sources._h264 import Numbering

ENCODERS = {
    "baseline": {"profile": "baseline", "g": "20"},
    "b-frames": {"bf": "3", "g": "30"},
    "b-pyramid": {"x264-params": "bframes=4:b-pyramid=normal:keyint=40"},
    "scaling-lists": {"x264-params": "cqm=jvt:bframes=2:keyint=20"},
    "slices": {"x264-params": "slices=4:keyint=20:bframes=0"},
    "interlaced": {"x264-params": "tff=1:keyint=20:bframes=2"},
    "intra-refresh": {"x264-params": "intra-refresh=1:keyint=20:bframes=0"},
    "low-delay": {"tune": "zerolatency", "g": "25"},
}


def stream(options: dict[str, str], kind: str = "yuv420p", frames: int = 90) -> list[bytes]:
    """Packets with start codes, one a picture."""
    encoder = av.CodecContext.create("libx264", "w")
    assert isinstance(encoder, av.VideoCodecContext)
    encoder.width, encoder.height, encoder.pix_fmt = 96, 64, kind
    encoder.time_base, encoder.framerate = Fraction(1, 25), Fraction(25)
    encoder.options = {"preset": "veryfast", "sc_threshold": "0", **options}
    texture = np.random.default_rng(3).integers(0, 60, (64, 32, 3), np.uint8)
    packets = []
    for count in range(frames):
        pixels = np.full((64, 96, 3), 90, np.uint8)
        pixels[:, count % 64 : count % 64 + 32] += texture
        frame = av.VideoFrame.from_ndarray(pixels, format="bgr24").reformat(format=kind)
        frame.pts = count
        packets += [bytes(packet) for packet in encoder.encode(frame)]
    return packets + [bytes(packet) for packet in encoder.encode(None)]


def is_built_on(packet: bytes) -> bool:
    """nal_ref_idc of the first slice."""
    for start in range(len(packet) - 4):
        if packet[start : start + 3] == b"\0\0\1" and packet[start + 3] & 31 in (1, 5):
            return bool(packet[start + 3] & 0x60)
    raise AssertionError("a packet without a slice")


def is_idr(packet: bytes) -> bool:
    return any(
        packet[start : start + 3] == b"\0\0\1" and packet[start + 3] & 31 == 5
        for start in range(len(packet) - 4)
    )


@pytest.mark.parametrize("kind", ["yuv420p", "yuv444p"])
@pytest.mark.parametrize("name", ENCODERS)
def test_a_whole_stream_misses_nothing(name: str, kind: str) -> None:
    if (name, kind) == ("baseline", "yuv444p"):
        kind = "yuv420p"  # the profile has no other
    numbering = Numbering()
    assert not [at for at, packet in enumerate(stream(ENCODERS[name], kind)) if numbering.misses(packet)]


@pytest.mark.parametrize("name", ENCODERS)
def test_each_missing_picture_that_others_are_built_on_is_noticed_at_once(name: str) -> None:
    packets = stream(ENCODERS[name])
    lost = [
        at
        for at in range(1, len(packets) - 1)
        # what an IDR picture follows is not missed by anything
        if is_built_on(packets[at]) and not is_idr(packets[at]) and not is_idr(packets[at + 1])
    ]
    assert len(lost) > 10
    for at in lost:
        numbering = Numbering()
        noticed = [
            index
            for index, packet in enumerate(packets[:at] + packets[at + 1 : at + 8])
            if numbering.misses(packet)
        ]
        assert noticed[:1] == [at], f"picture {at} of {name}"


def test_a_missing_picture_that_nothing_is_built_on_is_no_matter() -> None:
    packets = stream(ENCODERS["b-frames"])
    numbering = Numbering()
    left = [packet for packet in packets if is_built_on(packet)]
    assert len(left) < len(packets)
    assert not [at for at, packet in enumerate(left) if numbering.misses(packet)]


def test_a_picture_without_its_first_slice_is_noticed() -> None:
    packets = stream(ENCODERS["slices"])
    victim = packets[30]
    first = victim.index(b"\0\0\1", 0)
    second = victim.index(b"\0\0\1", first + 3)
    numbering = Numbering()
    for packet in packets[:30]:
        assert not numbering.misses(packet)
    assert numbering.misses(victim[second:])


def test_a_real_recording_misses_nothing(shared: Path) -> None:
    numbering = Numbering()
    with av.open(str(shared / "assets" / "videos" / "bottle-detection.mp4")) as container:
        video = container.streams.video[0]
        annexb = av.BitStreamFilterContext("h264_mp4toannexb", video)
        packets = [
            bytes(p) for packet in container.demux(video) if packet.size for p in annexb.filter(packet)
        ]
    assert len(packets) == 1189
    assert not [at for at, packet in enumerate(packets) if numbering.misses(packet)]


@pytest.mark.parametrize(
    "packet", [b"", b"\0\0\1", b"\0\0\1\x67", b"\0\0\1\x65", b"\0\0\1\x67\xff\xff\xff\0\0\1\x41"]
)
def test_half_a_packet_does_not_hurt(packet: bytes) -> None:
    Numbering().misses(packet)
