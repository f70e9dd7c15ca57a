"""Read ahead, judged by several, and in order again."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Generator
from itertools import count

import numpy as np
import pytest

from edge_infer.batch import ahead
from edge_infer.batch.ahead import in_order
from edge_infer.batch.items import Item, Position

WAIT_S = 20


def item(at: int, size: int = 1) -> Item:
    return Item(Position(at + 1, 0), f"{at}", None, np.zeros((1, size, 3), np.uint8))


def some(number: int) -> Generator[Item, None, None]:
    yield from (item(at) for at in range(number))


def test_answers_come_in_the_order_of_the_items_whichever_is_ready_first() -> None:
    later = [threading.Event() for _ in range(40)]

    def judge(one: Item) -> int:
        at = int(one.image)
        # each even one is ready only after the odd one behind it
        if at % 2:
            later[at].set()
        else:
            assert later[at + 1].wait(WAIT_S)
        return at

    assert list(in_order(some(40), judge, 4, threading.Event())) == list(range(40))


class Answer:
    """Can be watched dying."""


def test_memory_does_not_grow_with_the_number_of_items() -> None:
    alive: weakref.WeakSet[Answer] = weakref.WeakSet()
    pixels: weakref.WeakSet[Item] = weakref.WeakSet()
    most = [0, 0]

    class Watched(Item):
        __slots__ = ("__weakref__",)

    def many() -> Generator[Item, None, None]:
        for at in range(3000):
            one = Watched(Position(at + 1, 0), f"{at}", None, np.zeros((1, 1, 3), np.uint8))
            pixels.add(one)
            yield one

    def judge(_: Item) -> Answer:
        answer = Answer()
        alive.add(answer)
        return answer

    for number, _ in enumerate(in_order(many(), judge, 2, threading.Event())):
        if number % 10 == 0:
            most = [max(most[0], len(alive)), max(most[1], len(pixels))]
    assert most[0] <= 2 * 2 + 4
    assert most[1] <= 2 * 2 + 2 + 8


def test_nothing_is_read_that_does_not_fit_but_one_picture_always_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ahead, "MOST_BYTES", 1000)
    read: list[int] = []
    third = threading.Event()
    held = threading.Event()
    begun = threading.Event()

    def large() -> Generator[Item, None, None]:
        for at, size in enumerate((100, 100, 100, 2000, 100)):
            read.append(at)
            yield item(at, size)
            if at == 2:
                third.set()

    def judge(one: Item) -> int:
        begun.set()
        assert held.wait(WAIT_S)
        return int(one.image)

    answers = in_order(large(), judge, 2, threading.Event())
    judged: list[int] = []
    reader = threading.Thread(target=lambda: judged.extend(answers))
    reader.start()
    assert third.wait(WAIT_S)
    assert begun.wait(WAIT_S)
    # 900 bytes are held: the large one is made, and waits
    assert read in ([0, 1, 2], [0, 1, 2, 3])
    held.set()
    reader.join(WAIT_S)
    assert judged == [0, 1, 2, 3, 4]


def test_a_stop_keeps_what_is_being_judged_and_leaves_no_hole() -> None:
    stop = threading.Event()
    endless = count()
    given = (item(at) for at in endless)
    answers = in_order(given, lambda one: int(one.image), 3, stop)
    kept = [next(answers) for _ in range(10)]
    stop.set()
    kept += answers
    assert kept == list(range(len(kept)))
    assert len(kept) < 10 + 2 * 3 + 4


def test_a_stop_ends_the_wait_for_a_picture_that_takes_long() -> None:
    stop, judged, reading, release = (threading.Event() for _ in range(4))

    def slow() -> Generator[Item, None, None]:
        yield item(0)
        reading.set()
        release.wait(WAIT_S)
        yield item(1)

    def judge(one: Item) -> int:
        judged.set()
        return int(one.image)

    kept: list[int] = []
    answers = in_order(slow(), judge, 1, stop)
    thread = threading.Thread(target=lambda: kept.extend(answers))
    thread.start()
    assert reading.wait(WAIT_S)
    assert judged.wait(WAIT_S)
    stop.set()
    thread.join(5)
    alive = thread.is_alive()
    release.set()
    assert not alive
    assert kept == [0]


def test_what_the_judge_or_the_reading_raises_ends_it_after_the_answers_before_it() -> None:
    def judge(one: Item) -> int:
        if one.image == "5":
            raise ZeroDivisionError("judge")
        return int(one.image)

    kept: list[int] = []
    with pytest.raises(ZeroDivisionError, match="judge"):
        kept.extend(in_order(some(100), judge, 2, threading.Event()))
    assert kept == [0, 1, 2, 3, 4]

    def broken() -> Generator[Item, None, None]:
        yield from some(3)
        raise ZeroDivisionError("reading")

    with pytest.raises(ZeroDivisionError, match="reading"):
        list(in_order(broken(), lambda one: int(one.image), 2, threading.Event()))
