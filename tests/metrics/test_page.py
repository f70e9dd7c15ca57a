from __future__ import annotations

import pytest

from edge_infer.metrics import catalogue as named
from edge_infer.metrics.histogram import Histogram
from edge_infer.metrics.page import Page, Sheet
from tests.support.prometheus import Scrape, promtool

AWKWARD = 'a "quoted" name\\ with\na line, {braces} and é'


def test_whatever_a_label_says_it_comes_through() -> None:
    def fill(sheet: Sheet) -> None:
        sheet.tell(named.TEMPERATURE, 48.5, "thermal_zone0", AWKWARD)

    text = Page(fill).text()
    promtool("check", "metrics", text=text)
    assert Scrape(text.decode()).value("temperature_celsius", place="thermal_zone0", sensor=AWKWARD) == 48.5


def test_what_is_not_known_is_not_told_and_true_is_one() -> None:
    def fill(sheet: Sheet) -> None:
        sheet.tell(named.CLOCK_SYNCED, None)
        sheet.tell(named.MQTT_CONNECTED, True)

    found = Scrape(Page(fill).text().decode())
    assert not found.has("clock_synced")
    assert found.value("mqtt_connected") == 1


def test_a_histogram_has_its_buckets_count_and_sum() -> None:
    histogram = Histogram()
    histogram.observe(0.004)
    histogram.observe(0.3)

    def fill(sheet: Sheet) -> None:
        sheet.tell_histogram(named.STAGE, histogram, "cap", "infer")

    text = Page(fill).text()
    promtool("check", "metrics", text=text)
    found, of = Scrape(text.decode()), {"station": "cap", "stage": "infer"}
    assert found.value("stage_duration_seconds_bucket", le="0.005", **of) == 1
    assert found.value("stage_duration_seconds_bucket", le="+Inf", **of) == 2
    assert found.value("stage_duration_seconds_count", **of) == 2
    assert found.value("stage_duration_seconds_sum", **of) == pytest.approx(0.304)


def test_a_metric_with_other_labels_than_the_catalogue_says_is_a_bug() -> None:
    with pytest.raises(AssertionError, match="edge_infer_decisions_total"):
        Sheet().tell(named.DECISIONS, 1, "cap")


def test_nothing_is_called_as_node_exporter_calls_its_own() -> None:
    found = Scrape(Page(lambda _: None).text().decode())
    assert found.names
    assert all(name.startswith("edge_infer_") for name in found.names)


def test_the_catalogue_keeps_to_what_prometheus_calls_good_names() -> None:
    for one in (*named.ALL, *named.PROCESS):
        assert (one.kind == "counter") == one.name.endswith("_total"), one.name
        assert not any(unit in one.name for unit in ("_ms", "milli", "_kb", "percent", "_days")), one.name
        assert not {"part", "part_id", "result", "job", "seq", "text"} & set(one.labels), one.name
        assert one.meaning.endswith(".")
    assert len({one.name for one in named.ALL}) == len(named.ALL)
