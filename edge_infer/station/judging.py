"""From a frame to what was found in it, and from that to a verdict, all by one setup."""

from __future__ import annotations

import time
from dataclasses import replace

from edge_infer import clock
from edge_infer.decoders.anomaly import at_threshold
from edge_infer.errors import EdgeInferError
from edge_infer.frame import Frame
from edge_infer.imagehealth.health import Glance
from edge_infer.network import Inference, Network
from edge_infer.rules.decision import Judge, Verdict
from edge_infer.station.inspection import Unusable
from edge_infer.station.setup import Setup


def age_s(frame: Frame, *, recorded: bool) -> float:
    """Seconds since it was taken, or read from a recording."""
    if recorded:
        # by the wall clock, which may be set back
        return max(0.0, (clock.now() - frame.captured_at).total_seconds())
    return time.monotonic() - frame.time_s


def distrust(frame: Frame, max_age_s: float | None) -> Unusable | None:
    """Why the frame must not be judged, whatever it shows; ``max_age_s``: None of a recording."""
    if frame.damaged is not None:
        return Unusable("damaged", frame.damaged)
    if max_age_s is not None and (old_s := age_s(frame, recorded=False)) > max_age_s:
        return Unusable("stale", f"the frame is {old_s:.1f} s old, the camera allows {max_age_s:g} s")
    return None


def glance(frame: Frame, setup: Setup) -> Glance | None:
    """What will tell whether the frame can be judged; of one station in the order of its frames."""
    try:
        region = setup.settings.seen(frame.width, frame.height)
    except EdgeInferError:
        # the look at it will say so
        return None
    return setup.health.take(frame, region)


def unhealthy(glance: Glance | None) -> Unusable | None:
    """Why the network need not be asked."""
    found = glance.found() if glance is not None else None
    return Unusable(found.code, found.text) if found is not None else None


def look(frame: Frame, setup: Setup, network: Network) -> Inference | Unusable:
    """What the network finds in the station's region, by the station's own threshold where it has one."""
    settings, size = setup.settings, setup.memory.frame_size
    if size is not None and (why := size.other(frame.width, frame.height)) is not None:
        return Unusable("rule_not_evaluable", why)
    try:
        view = settings.view(frame.width, frame.height, setup.lens)
    except EdgeInferError as error:
        return Unusable("rule_not_evaluable", str(error))
    try:
        inference = network.look(frame.pixels, view)
    except EdgeInferError as error:
        return Unusable("backend_failed", str(error))
    anomaly = inference.findings.anomaly
    if anomaly is None or settings.anomaly_threshold is None:
        return inference
    judged = replace(inference.findings, anomaly=at_threshold(anomaly, settings.anomaly_threshold))
    return replace(inference, findings=judged)


def decide(judge: Judge, outcome: Inference | Unusable | None, frame: Frame | None) -> Verdict:
    """Of an inspection that is answered."""
    if isinstance(outcome, Unusable):
        # a file name may hold bytes that are no text
        return judge.undefined(outcome.code, outcome.text.encode(errors="backslashreplace").decode())
    if outcome is None or frame is None:
        raise AssertionError("only an answered inspection is published")
    return judge.judge(
        outcome.findings, width=frame.width, height=frame.height, time_s=frame.time_s, seen=outcome.seen
    )
