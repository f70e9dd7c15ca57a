"""The broker: reached, trusted, let in, and may the device publish where it must.

As a client of its own: the service's connection, its will and what the broker keeps are not touched.
"""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import TimeoutError as LateError
from functools import partial
from typing import TYPE_CHECKING

from edge_infer import clock
from edge_infer.doctor.finding import Finding, fail, ok, warn
from edge_infer.doctor.later import later
from edge_infer.doctor.subject import Subject
from edge_infer.errors import EdgeInferError

if TYPE_CHECKING:
    from edge_infer.config.site import Site
    from edge_infer.mqtt.connection import Connection, Event

CHECK = "mqtt"
TOPIC = "doctor"
"""Below the device's prefix: not retained, and nothing listens to it."""


def check(subject: Subject, by_s: float) -> Iterator[Finding]:
    """In words what a connection of the service would meet."""
    site = subject.site
    if site is None:
        return
    work = later("broker", partial(_probe, subject, site, by_s))
    try:
        yield from work.result(max(0.1, by_s - time.monotonic()))
    except LateError:
        where = f"{site.mqtt.host} port {site.mqtt.broker_port}"
        yield fail(CHECK, f"{where} does not answer in time", _reach(site))


def _probe(subject: Subject, site: Site, by_s: float) -> list[Finding]:
    from edge_infer.mqtt.connection import Connection

    settings, where = site.mqtt, f"{site.mqtt.host} port {site.mqtt.broker_port}"
    try:
        password = subject.secrets.read(settings.password) if settings.password is not None else None
    except EdgeInferError as error:
        return [
            fail(CHECK, f"{where} was not asked: {error.message}", error.hint or "make the secret readable")
        ]
    connection: Connection | None = None
    try:
        # never the service's own id: the broker would throw the service out
        connection = Connection(
            settings, client_id=f"edge-infer-doctor-{uuid.uuid4().hex[:8]}", password=password, will=None
        )
        connection.open()
        return [*_talk(connection, site, where, by_s)]
    except EdgeInferError as error:
        return [fail(CHECK, f"{where}: {error.message}", error.hint or _mend(site, error))]
    finally:
        if connection is not None:
            connection.close(farewell=True)


def _talk(connection: Connection, site: Site, where: str, by_s: float) -> Iterator[Finding]:
    from edge_infer.mqtt.connection import Acknowledged, Connected, Lost, SubscribeRefused
    from edge_infer.mqtt.messages import Publication

    settings = site.mqtt
    shown = connection.broker_certificate
    topic = f"{site.topic_prefix}/{TOPIC}"
    encrypted = "with TLS" if settings.tls is not None else "without TLS"
    for event in _events(connection, by_s):
        if isinstance(event, Lost):
            yield fail(
                CHECK,
                f"{where}: {event.reason}",
                f"check mqtt.user, mqtt.password and protocol; the broker's log says why ({_client(site)})",
            )
            return
        if isinstance(event, Connected):
            yield ok(CHECK, f"{where} lets us in {encrypted}, MQTT {settings.protocol}")
            if not event.retains:
                yield warn(
                    f"{CHECK}.retain",
                    "the broker keeps no retained messages: readers that come later miss status and counts",
                    "allow them at the broker (mosquitto: retain_available true)",
                )
            yield from _security(site, shown)
            if topics := _commands(site):
                connection.subscribe(topics)
            payload = json.dumps({"doctor": "may this device publish here?"}).encode()
            connection.send(Publication(topic, payload, expiry_s=1))
        elif isinstance(event, SubscribeRefused):
            yield fail(
                f"{CHECK}.commands",
                f"{event.topic}: {event.reason}",
                f"let {_client(site)} read {event.topic} in the broker's access rights",
            )
        elif isinstance(event, Acknowledged):
            if event.code >= 0x80:
                yield fail(
                    f"{CHECK}.publish",
                    f"{topic}: the broker refuses: {event.reason}",
                    f"let {_client(site)} write {site.topic_prefix}/# in the broker's access rights "
                    f"(mosquitto's acl_file: topic write {site.topic_prefix}/#)",
                )
            elif settings.protocol == "5":
                yield ok(f"{CHECK}.publish", f"{topic} is taken")
            else:
                yield ok(
                    f"{CHECK}.publish",
                    f"{topic} is acknowledged; MQTT 3.1.1 would not say that it is refused",
                )
            return
    yield fail(CHECK, f"{where} takes the connection and does not answer", _reach(site))


def _events(connection: Connection, by_s: float) -> Iterator[Event]:
    reader, writer = os.pipe()
    try:
        while (left_s := by_s - 0.3 - time.monotonic()) > 0:
            yield from connection.step(reader, min(left_s, 0.5))
    finally:
        os.close(reader)
        os.close(writer)


def _security(site: Site, shown: bytes | None) -> Iterator[Finding]:
    from edge_infer.mqtt.certificates import of_connection

    settings = site.mqtt
    if settings.tls is None:
        if settings.password is not None and settings.host not in ("localhost", "127.0.0.1", "::1"):
            yield warn(
                f"{CHECK}.tls",
                "the password goes over the network readable for everybody",
                "write tls: {ca: ca.crt} under mqtt; docs/broker.md makes the certificates",
            )
        return
    for one in of_connection(settings.tls, shown):
        name = f"{CHECK}.tls.{one.whose}"
        if trouble := one.trouble(clock.now()):
            yield warn(
                name,
                f"{one.subject} {trouble}",
                f"deploy/broker/make-broker renew, then copy the {one.whose}'s files",
            )
        else:
            yield ok(name, f"{one.subject} holds until {one.not_after:%Y-%m-%d}")


def _commands(site: Site) -> list[str]:
    """What the service would listen to."""
    from edge_infer.messages.command import AT_DEVICE, AT_STATION
    from edge_infer.remote.commands import PART

    prefix, allowed = site.topic_prefix, site.commands.allow
    topics = [
        f"{prefix}/{name}/cmd/{PART}" for name, one in site.stations.items() if one.trigger.type == "mqtt"
    ]
    topics += [
        f"{prefix}/{name}/cmd/{verb}"
        for verb in allowed
        if verb in AT_STATION - {PART}
        for name in site.stations
    ]
    return topics + [f"{prefix}/cmd/{verb}" for verb in allowed if verb in AT_DEVICE]


def _client(site: Site) -> str:
    if site.mqtt.user is not None:
        return f"the user {site.mqtt.user}"
    tls = site.mqtt.tls
    return "this device's certificate" if tls is not None and tls.cert is not None else "anonymous clients"


def _mend(site: Site, error: EdgeInferError) -> str:
    tls = site.mqtt.tls
    if tls is None or not error.message.startswith("cannot use the certificate"):
        return _reach(site)
    if "authority" in error.message:
        return f"openssl x509 -in {tls.ca} -noout -text; wanted is PEM"
    return (
        f"openssl x509 -in {tls.cert} -noout -pubkey; openssl pkey -in {tls.key} -pubout: both must be equal"
    )


def _reach(site: Site) -> str:
    host, port = site.mqtt.host, site.mqtt.broker_port
    return f"is the broker running, does a firewall stand between? getent hosts {host}; nc -vz {host} {port}"
