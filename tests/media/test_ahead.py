"""Items made ahead are the same items; errors and early ends reach the other thread."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from sfumato.media import ahead


def test_the_same_items_in_the_same_order() -> None:
    assert list(ahead(range(100), 3)) == list(range(100))
    assert list(ahead([])) == []


def test_no_more_is_made_than_was_agreed() -> None:
    made: list[int] = []

    def source() -> Iterator[int]:
        for i in range(50):
            made.append(i)
            yield i

    for item in ahead(source(), 3):
        assert len(made) <= item + 5  # asked for, three waiting, one in hand
    assert len(made) == 50


def test_what_the_source_raises_is_raised_after_what_it_made() -> None:
    def source() -> Iterator[int]:
        yield 1
        raise ValueError("the source failed")

    items = ahead(source())
    assert next(items) == 1
    with pytest.raises(ValueError, match="the source failed"):
        next(items)


def test_a_consumer_that_stops_early_closes_the_source_and_its_thread() -> None:
    closed = threading.Event()

    def source() -> Iterator[int]:
        try:
            yield from range(1000)
        finally:
            closed.set()

    before = threading.active_count()
    items = ahead(source(), 2)
    assert next(items) == 0
    items.close()  # type: ignore[attr-defined]
    assert closed.is_set()
    assert threading.active_count() == before
