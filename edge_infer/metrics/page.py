"""All numbers as one text in Prometheus' format."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
)
from prometheus_client.metrics_core import (
    Metric as Family,
)

from edge_infer.metrics.catalogue import Metric
from edge_infer.metrics.histogram import Histogram

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4


class Sheet:
    """What is read for one page. A series is told once."""

    def __init__(self) -> None:
        self.families: dict[str, Family] = {}

    def tell(self, metric: Metric, value: float | None, *labels: str) -> None:
        """One number; None: it is not known, and not told."""
        if value is None:
            return
        family = self._family(metric, labels)
        if isinstance(family, CounterMetricFamily | GaugeMetricFamily):
            family.add_metric(labels, float(value))

    def tell_histogram(self, metric: Metric, histogram: Histogram, *labels: str) -> None:
        """All of its buckets."""
        family = self._family(metric, labels)
        if isinstance(family, HistogramMetricFamily):
            family.add_metric(labels, list(histogram.cumulative()), histogram.sum_s)

    def _family(self, metric: Metric, labels: tuple[str, ...]) -> Family:
        if len(labels) != len(metric.labels):
            raise AssertionError(f"{metric.name} has the labels {metric.labels}, not {labels}")
        if metric.name not in self.families:
            self.families[metric.name] = _KINDS[metric.kind](
                metric.name, metric.meaning, labels=metric.labels
            )
        return self.families[metric.name]


_KINDS: dict[str, type[CounterMetricFamily | GaugeMetricFamily | HistogramMetricFamily]] = {
    "counter": CounterMetricFamily,
    "gauge": GaugeMetricFamily,
    "histogram": HistogramMetricFamily,
}


class Page:
    """Reads everything anew each time that it is made. Nobody else's numbers are in its registry."""

    def __init__(self, fill: Callable[[Sheet], None]) -> None:
        """``fill`` tells all numbers as they are now."""
        self._fill = fill
        self._registry = CollectorRegistry()
        # under our name: node_exporter has process_* of its own
        ProcessCollector(namespace="edge_infer", registry=self._registry)
        self._registry.register(self)

    def collect(self) -> Iterable[Family]:
        """For the registry."""
        sheet = Sheet()
        self._fill(sheet)
        return sheet.families.values()

    def text(self) -> bytes:
        """UTF-8."""
        return generate_latest(self._registry)
