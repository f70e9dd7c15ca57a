"""Topics of what is no more: the last word is said, then the broker keeps nothing, whatever comes late."""

from __future__ import annotations

from edge_infer.messages.topics import TEXT
from edge_infer.mqtt.states import States


def sent(states: States, now_s: float) -> list[tuple[str, bytes, bool]]:
    """What goes out, each acknowledged at once."""
    out = []
    while (one := states.take(now_s)) is not None:
        out.append((one.topic, one.payload, one.retain))
        states.answered(one.topic, now_s)
    return out


def decided(states: States, word: bytes, now_s: float) -> None:
    states.put("cap/decision", word, now_s=now_s, valid_s=5, renew_s=2, content_type=TEXT, over=b"UNDEFINED")


def test_a_cleared_topic_says_its_last_word_and_is_forgotten() -> None:
    states = States(retain_expiring=True)
    decided(states, b"OK", 0)
    assert sent(states, 0)[0][1] == b"OK"
    states.clear("cap/decision", say=b"UNDEFINED")
    assert sent(states, 1) == [("cap/decision", b"UNDEFINED", False), ("cap/decision", b"", True)]
    assert sent(states, 100) == []
    assert states.wait_s(100) is None


def test_what_waits_for_a_broker_that_is_away_is_cleared_when_it_comes_back() -> None:
    states = States(retain_expiring=True)
    decided(states, b"OK", 0)
    assert states.take(0) is not None
    states.clear("cap/decision", say=b"UNDEFINED")
    states.clear("cap/counts")
    states.reconnected()
    # hours later
    assert sent(states, 9000) == [
        ("cap/decision", b"UNDEFINED", False),
        ("cap/decision", b"", True),
        ("cap/counts", b"", True),
    ]


def test_what_was_on_the_wire_when_it_was_cleared_is_not_the_last_word() -> None:
    states = States(retain_expiring=True)
    decided(states, b"OK", 0)
    taken = states.take(0)
    assert taken is not None
    states.clear("cap/decision", say=b"UNDEFINED")
    states.answered(taken.topic, 1)
    assert [payload for _, payload, _ in sent(states, 1)] == [b"UNDEFINED", b""]


def test_a_station_that_comes_back_speaks_again() -> None:
    states = States(retain_expiring=True)
    states.clear("cap/decision", say=b"UNDEFINED")
    states.extend("cap/decision", now_s=0, valid_s=5)
    decided(states, b"OK", 0)
    assert [payload for _, payload, _ in sent(states, 0)] == [b"OK"]
    assert sent(states, 1) == []
