"""What is wrong between the pieces of a site, though each is right in itself. Looks at no file."""

from __future__ import annotations

import re
import socket
from collections import Counter

from edge_infer.config.pieces import Pieces
from edge_infer.config.recipes import Place, written
from edge_infer.errors import EdgeInferError
from edge_infer.model.card import ModelCard
from edge_infer.mqtt.reply_space import RESPONSES
from edge_infer.rules.zone import Zone
from edge_infer.sources import SourceSettings
from edge_infer.station import StationSettings
from edge_infer.station.settings import Region
from edge_infer.triggers import PartTriggerSettings
from edge_infer.yamlfile import did_you_mean, tree
from edge_infer.yamlfile.scalars import quoted

_ROOMS = {"camera": "cameras", "model": "models"}
_PASSWORD = re.compile(r"://[^/\s:@]*:[^\s]*@")
_NAME = re.compile(r"[A-Za-z0-9_-]{1,40}")


def check_consistency(pieces: Pieces) -> None:
    """Names that lead nowhere, triggers that a camera cannot give, passwords in addresses, topics."""
    for name in pieces.names("stations"):
        _check_names(pieces, name)
    for part in written(pieces.document):
        _check_name(pieces, (*part.place.at, "model"), "model", "models")
    for name, station in pieces.stations.items():
        if (camera := pieces.cameras.get(station.camera)) is not None:
            _check_trigger(pieces, name, station, camera)
    for place, station in pieces.judged():
        _check_rules(pieces, place, station)
    _check_addresses(pieces)
    _check_topics(pieces)
    _warn_of_unused(pieces)
    _warn_of_case(pieces)
    if pieces.metrics is not None and not pieces.metrics.loopback:
        text = "whoever can reach this address reads the numbers, without a password and unencrypted"
        pieces.warn(("metrics", "address"), f"{text}; 127.0.0.1 keeps them on this device")


def _check_trigger(pieces: Pieces, name: str, station: StationSettings, camera: SourceSettings) -> None:
    at: tree.Path = ("stations", name, "trigger")
    trigger = station.trigger
    parts = trigger if isinstance(trigger, PartTriggerSettings) else None
    from_camera = parts is not None and parts.from_camera
    if from_camera and not camera.has_line:
        text = f"the camera {station.camera} has no line that could trigger"
        others = "use mqtt" if camera.waits else "use continuous, every or mqtt"
        pieces.wrong((*at, "type"), f"{text}; {others}")
    elif parts is None and camera.waits and not camera.has_line:
        text = f"the camera {station.camera} takes a picture only when a part asks"
        pieces.wrong((*at, "type"), f"{text}; use mqtt, or let the camera run freely")
    elif parts is not None and from_camera and camera.waits and parts.delay_ms:
        text = f"the camera {station.camera} takes one picture a part, at once: there is none for later"
        place = "in the camera, features: {TriggerDelay: ...}" if not camera.recorded else "where it is taken"
        pieces.wrong((*at, "delay_ms"), f"{text}; set the delay {place}")


def check_against_card(
    pieces: Pieces, place: Place, station: StationSettings, card: ModelCard | None
) -> None:
    """Rules that the model cannot answer; ``card`` is None where it could not be read."""

    def wrong(path: tree.Path, message: str) -> None:
        if (at := place.of(path, "model", "rules")) is not None:
            pieces.wrong(at, message)

    if not station.rules and (card is None or card.task != "anomaly"):
        wrong((), "a station needs rules: they say what must hold for OK")
    if card is None:
        return
    if station.anomaly_threshold is not None and card.task != "anomaly":
        wrong(
            ("anomaly_threshold",),
            f"the model {station.model} finds no anomalies (its task is {card.task}); "
            "remove anomaly_threshold",
        )
    if station.rules and card.task == "anomaly":
        wrong(
            ("rules",),
            f"the model {station.model} judges by its own threshold and counts nothing; remove rules",
        )
        return
    for index, rule in enumerate(station.rules):
        at: tree.Path = ("rules", index)
        for position, label in enumerate(rule.count.labels):
            if label not in card.labels:
                advice = did_you_mean(label, card.labels)
                wrong(
                    (*at, "count", "labels", position),
                    f"the model {station.model} has no label {quoted(label)}{advice}",
                )
        if card.task == "classify" and (rule.zone is not None or rule.min_area_px):
            wrong(
                (*at, "zone" if rule.zone is not None else "min_area_px"),
                f"the model {station.model} judges the whole picture, it does not say where",
            )
        if rule.count.min_score > 0 and drops_all_below(card, rule.count.min_score):
            score = place.of((*at, "count", "min_score"))
            if score is not None:
                pieces.warn(
                    score,
                    f"the model {station.model} drops everything below its score_threshold "
                    f"{card.score_threshold:g}: this has no effect",
                )


def drops_all_below(card: ModelCard, min_score: float) -> bool:
    """Whether the model drops everything that the rule would, and more."""
    return min_score < card.score_threshold and card.task != "classify"


def device_name(written: str | None) -> str:
    """The device's name in topics; EdgeInferError where the host name cannot be one."""
    name = written if written is not None else socket.gethostname().partition(".")[0]
    if not _NAME.fullmatch(name):
        raise EdgeInferError(f"the host name {name!r} cannot be a device's name; write device: NAME")
    return name


def _check_names(pieces: Pieces, station: str) -> None:
    for key, room in _ROOMS.items():
        _check_name(pieces, ("stations", station, key), key, room)


def _check_name(pieces: Pieces, at: tree.Path, key: str, room: str) -> None:
    name, known = pieces.text(at), pieces.names(room)
    if name is not None and _NAME.fullmatch(name) and known and name not in known:
        pieces.wrong(at, f"there is no {key} {name} under {room}:{did_you_mean(name, known)}")


def _check_rules(pieces: Pieces, place: Place, station: StationSettings) -> None:
    for index, rule in enumerate(station.rules):
        zone = place.of(("rules", index, "zone"), "region")
        limit = place.of(("rules", index, "count", "at_least"))
        if zone and rule.zone and station.region and _apart(rule.zone, station.region):
            pieces.wrong(
                zone,
                f"the zone of the rule {rule.name} lies outside the station's region: "
                "nothing is ever seen there",
            )
        if limit and rule.count.at_least == 0 and rule.count.at_most is None:
            pieces.warn(limit, "at_least: 0 can never be broken")


def _apart(zone: Zone, region: Region) -> bool:
    """Whether their bounding boxes do not meet; pixels and fractions cannot be compared without a frame."""
    xs, ys = zip(*zone.polygon, strict=True)
    x1, y1, x2, y2 = region.box
    return zone.unit == region.unit and (max(xs) <= x1 or min(xs) >= x2 or max(ys) <= y1 or min(ys) >= y2)


def _check_addresses(pieces: Pieces) -> None:
    for path, node in tree.walk(pieces.document.root):
        if isinstance(node, tree.Scalar) and _PASSWORD.search(node.written):
            pieces.wrong(
                path,
                "a password must not stand in an address; write user: and password: {env: NAME} beside it",
            )


def _check_topics(pieces: Pieces) -> None:
    if tree.find(pieces.document.root, ("device",)) is None:
        try:
            device_name(None)
        except EdgeInferError as error:
            pieces.wrong(("device",), str(error))
    if pieces.mqtt is not None and "{device}" not in pieces.mqtt.topic_prefix:
        pieces.warn(
            ("mqtt", "topic_prefix"), "without {device} a second device would publish on the same topics"
        )
    if "cmd" in pieces.names("stations"):
        # whoever may command the device could write its results
        pieces.wrong(
            ("stations", "cmd"), "its topics would be those of commands; choose another name", key=True
        )
    if "camera" in pieces.names("stations"):
        # a camera called "result" would be told where results are
        pieces.wrong(
            ("stations", "camera"), "its topics would be those of cameras; choose another name", key=True
        )
    if pieces.mqtt is not None:
        levels = {key: pieces.text((key,)) or "-" for key in ("site", "line", "device")}
        if f"{pieces.mqtt.prefix(**levels)}/".startswith(RESPONSES):
            pieces.wrong(
                ("site",) if levels["site"] == "rsp" else ("mqtt", "topic_prefix"),
                f"everything would be published below {RESPONSES}, where every device may answer commands",
            )


def _warn_of_unused(pieces: Pieces) -> None:
    for key, room in _ROOMS.items():
        used = {pieces.text(("stations", station, key)) for station in pieces.names("stations")}
        used |= {pieces.text((*part.place.at, key)) for part in written(pieces.document)}
        for name in pieces.names(room):
            if name not in used:
                pieces.warn((room, name), f"no station uses this {key}", key=True)


def _warn_of_case(pieces: Pieces) -> None:
    for room in ("cameras", "models", "stations", "recipes"):
        names = pieces.names(room)
        often = Counter(name.lower() for name in names)
        for name in names:
            if often[name.lower()] > 1:
                pieces.warn((room, name), "differs from another name only by upper and lower case", key=True)
