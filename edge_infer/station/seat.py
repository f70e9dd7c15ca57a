"""A station's place among those that an engine asks for work."""

from __future__ import annotations

from edge_infer.engine import Engine, Feed, Work


class Seat:
    """A Feed that can be left: an engine may outlive a station, and would keep it and its frames."""

    def __init__(self, feed: Feed) -> None:
        self._feed: Feed | None = feed

    def leave(self) -> None:
        """Nothing is taken any more."""
        self._feed = None

    def take_triggered(self, engine: Engine) -> Work | None:
        """See Feed."""
        feed = self._feed
        return feed.take_triggered(engine) if feed is not None else None

    def take_newest(self, engine: Engine) -> Work | None:
        """See Feed."""
        feed = self._feed
        return feed.take_newest(engine) if feed is not None else None
