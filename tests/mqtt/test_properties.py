"""What stands beside a payload is what paho itself would have written."""

from __future__ import annotations

import pytest
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from edge_infer.messages.topics import JSON, TEXT
from edge_infer.mqtt.messages import Publication
from edge_infer.mqtt.properties import PublishProperties

LONG = "孔" * 5000


@pytest.mark.parametrize(
    "publication",
    [
        Publication("t", b"x"),
        Publication("t", b"x", content_type=TEXT, expiry_s=0),
        Publication("t", b"x", expiry_s=4_000_000_000, user=(("schema", "result/1"), ("seq", "7"))),
        Publication("t", b"x", user=(("same", "1"), ("same", "2"), ("", ""), ("long", LONG))),
        Publication("t", b"x", correlation=b"\0\xff" * 300),
        Publication("t", b"x", content_type="image/jpeg", text=False),
    ],
)
def test_a_foreign_reader_finds_every_property(publication: Publication) -> None:
    packed = PublishProperties(publication).pack()
    read = Properties(PacketTypes.PUBLISH)
    _, length = read.unpack(packed)
    assert length == len(packed)
    found = {key: value for key, value in vars(read).items() if key[0].isupper()}
    assert found.pop("PayloadFormatIndicator") == publication.text
    assert found.pop("ContentType", JSON) == publication.content_type
    assert found.pop("MessageExpiryInterval", None) == publication.expiry_s
    assert found.pop("CorrelationData", None) == publication.correlation
    assert tuple(found.pop("UserProperty", ())) == publication.user
    assert not found
