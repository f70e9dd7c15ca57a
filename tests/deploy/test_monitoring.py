"""The alert rules and the dashboard, judged by promtool with the numbers of a real service."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from edge_infer.metrics import catalogue as named
from tests.support.mosquitto import Mosquitto, free_port
from tests.support.prometheus import Prometheus, Scrape, promtool
from tests.support.runs import Run, site
from tests.support.scraped import Scraped

DEPLOY = Path(__file__).parents[2] / "deploy"
ALERTS = DEPLOY / "prometheus/alerts.yaml"
DASHBOARD = DEPLOY / "grafana/edge-infer.json"
NETWORK_CAMERAS = "edge_infer_camera_packets_lost_total"
"""Told by them only; tests/test_exposition.py sees it."""
MINUTES = 80
ON = 'instance="ipc7",job="edge-infer"'


def _groups() -> list[dict[str, Any]]:
    groups: list[dict[str, Any]] = yaml.safe_load(ALERTS.read_text(encoding="utf-8"))["groups"]
    return groups


def _rules(kind: str) -> dict[str, str]:
    return {rule[kind]: rule["expr"] for group in _groups() for rule in group["rules"] if kind in rule}


def _panels() -> Iterator[tuple[str, str]]:
    """Title and expression, variables filled in as Grafana would."""
    for panel in json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"]:
        for target in panel.get("targets", ()):
            expression = target["expr"].replace("$__rate_interval", "5m")
            yield f"{panel['title']} {target['refId']}", re.sub(r"\$(instance|station)", ".+", expression)


def _names(expression: str) -> set[str]:
    words = re.findall(r"[A-Za-z_:][\w:]*", re.sub(r'"(\\.|[^"])*"', "", expression))
    return {word for word in words if "edge_infer" in word}


def _series(page: Scrape, step: int = 0) -> list[dict[str, str]]:
    """Of a real page, for so many minutes; counters grow by ``step`` a minute."""
    counters = {one.name for one in named.ALL if one.kind == "counter"}
    series = []
    for (name, labels), value in page.samples.items():
        told = ",".join([ON, *(f"{key}={json.dumps(label)}" for key, label in labels)])
        grows = step if name in counters or name.endswith(("_bucket", "_count", "_sum")) else 0
        series.append({"series": f"{name}{{{told}}}", "values": f"{value:.6f}+{grows}x{MINUTES}"})
    return series


def _firing(folder: Path, cases: list[tuple[list[dict[str, str]], set[str]]], *rules: Path) -> None:
    """promtool agrees that, for each case's series, exactly its alerts fire after most of that time."""
    tests = [
        {
            "interval": "1m",
            "input_series": series,
            "promql_expr_test": [
                {
                    "expr": 'count by (alertname) (ALERTS{alertstate="firing"}) > bool 0',
                    "eval_time": f"{MINUTES - 5}m",
                    "exp_samples": [
                        {"labels": f'{{alertname="{name}"}}', "value": 1} for name in sorted(wanted)
                    ],
                }
            ],
        }
        for series, wanted in cases
    ]
    files = [str(one) for one in rules or (ALERTS,)]
    path = folder / "test.yaml"
    path.write_text(yaml.safe_dump({"rule_files": files, "evaluation_interval": "1m", "tests": tests}))
    promtool("test", "rules", str(path))


def test_prometheus_takes_the_rules() -> None:
    assert "SUCCESS" in promtool("check", "rules", "--lint=all", "--lint-fatal", str(ALERTS))


def test_each_rule_and_each_panel_asks_for_what_a_real_service_tells(scraped: Scraped) -> None:
    told = scraped.last.names | _rules("record").keys() | {NETWORK_CAMERAS}
    expressions = [*_rules("alert").items(), *_rules("record").items(), *_panels()]
    assert len(expressions) > 50
    for title, expression in expressions:
        asked = _names(expression)
        assert asked or expression.startswith("up{"), title
        assert asked <= told, f"{title}: {asked - told}"


def test_each_panel_has_something_to_show_of_a_real_service(scraped: Scraped, tmp_path: Path) -> None:
    # an alert fires where its expression gives anything
    panels = {f"Panel{number}": one for number, one in enumerate(_panels())}
    rules = [{"alert": name, "expr": expression} for name, (_, expression) in panels.items()]
    path = tmp_path / "panels.yaml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
    promtool("check", "rules", str(path))
    records = [rule for group in _groups() for rule in group["rules"] if "record" in rule]
    only = tmp_path / "records.yaml"
    only.write_text(yaml.safe_dump({"groups": [{"name": "records", "rules": records}]}))
    wanted = {name for name, (_, expression) in panels.items() if NETWORK_CAMERAS not in expression}
    _firing(tmp_path, [(_series(scraped.last, step=60), wanted)], only, path)


def test_the_dashboard_is_one_that_grafana_can_import() -> None:
    dashboard = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    assert dashboard["uid"] == "edge-infer"
    panels = dashboard["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        columns = range(place["x"], place["x"] + place["w"])
        cells = {(x, y) for x in columns for y in range(place["y"], place["y"] + place["h"])}
        assert not cells & taken, panel["title"]
        taken |= cells
        if panel["type"] != "row":
            assert panel["datasource"]["uid"] == "${datasource}"
    variables = {one["name"] for one in dashboard["templating"]["list"]}
    assert variables == {"datasource", "instance", "station"}


def test_a_service_that_is_well_sets_off_no_alarm(scraped: Scraped, tmp_path: Path) -> None:
    series = _series(scraped.last)
    for one in series:
        # these are of the machine that runs the tests
        if one["series"].startswith("edge_infer_clock_synced"):
            one["values"] = f"1+0x{MINUTES}"
        if one["series"].startswith("edge_infer_state_disk_free_bytes"):
            one["values"] = f"1000000000000+0x{MINUTES}"
    series.append({"series": f"up{{{ON}}}", "values": f"1+0x{MINUTES}"})
    _firing(tmp_path, [(series, set())])


CASES: Mapping[str, Mapping[str, str]] = {
    "EdgeInferDown": {"up{}": "0+0"},
    "EdgeInferNoResult": {
        'edge_infer_decision_age_seconds{station="cap"}': "0+60",
        'edge_infer_station_info{station="cap",trigger="every"}': "1+0",
        # nobody asked this one
        'edge_infer_decision_age_seconds{station="part"}': "0+60",
        'edge_infer_station_info{station="part",trigger="mqtt"}': "1+0",
    },
    "EdgeInferPartsUnanswered": {
        'edge_infer_triggers_total{station="part"}': "0+5",
        'edge_infer_decisions_total{station="part",decision="OK"}': "9+0",
        'edge_infer_decisions_total{station="part",decision="NOK"}': "3+0",
        'edge_infer_triggers_total{station="other"}': "0+5",
        'edge_infer_decisions_total{station="other",decision="OK"}': "0+5",
    },
    "EdgeInferUndefined": {
        'edge_infer_decisions_total{station="cap",decision="OK"}': "0+80",
        'edge_infer_decisions_total{station="cap",decision="UNDEFINED"}': "0+20",
    },
    "EdgeInferDeadlineMissed": {'edge_infer_reasons_total{station="cap",reason="deadline"}': "0+1"},
    "EdgeInferStale": {'edge_infer_reasons_total{station="cap",reason="stale"}': "0+1"},
    "EdgeInferCameraLost": {'edge_infer_camera_state{camera="top",state="lost"}': "1+0"},
    "EdgeInferCameraGivesNothingNew": {'edge_infer_camera_state{camera="top",state="frozen"}': "1+0"},
    "EdgeInferModelFailed": {'edge_infer_model_failed{model="seals"}': "1+0"},
    "EdgeInferHangs": {'edge_infer_loop_late_seconds{loop="camera top"}': "0+1"},
    "EdgeInferBrokerLost": {"edge_infer_mqtt_connected{}": "0+0"},
    "EdgeInferOutboxGrows": {"edge_infer_outbox_messages{}": "0+10"},
    "EdgeInferOutboxInMemory": {"edge_infer_outbox_in_memory{}": "1+0"},
    "EdgeInferGap": {'edge_infer_outbox_given_up_total{decision="OK"}': "0+1"},
    "EdgeInferDeadLetters": {"edge_infer_outbox_dead_letters{}": "1+0"},
    # the test's clock begins in 1970
    "EdgeInferCertificateExpires": {
        'edge_infer_certificate_expiry_timestamp_seconds{whose="device"}': f"{29 * 86400}+0",
        'edge_infer_certificate_expiry_timestamp_seconds{whose="ca"}': f"{900 * 86400}+0",
    },
    "EdgeInferClockNotSynced": {"edge_infer_clock_synced{}": "0+0"},
    "EdgeInferHot": {'edge_infer_temperature_celsius{place="hwmon0/temp1",sensor="coretemp"}': "95+0"},
    "EdgeInferThrottled": {'edge_infer_cpu_throttles_total{scope="core"}': "0+3"},
    "EdgeInferStateDiskFull": {
        "edge_infer_state_disk_free_bytes{}": "4+0",
        "edge_infer_state_disk_size_bytes{}": "100+0",
    },
    "EdgeInferEvidenceStopped": {"edge_infer_evidence_storing{}": "0+0"},
    "EdgeInferRestarts": {"edge_infer_process_start_time_seconds{}": "0+60"},
}
"""What sets each of them off, and beside it what must not: a first value, and how much more each minute."""


def test_there_is_a_case_for_each_alert() -> None:
    assert CASES.keys() == _rules("alert").keys()


def test_each_alert_fires_when_it_should_and_no_other_does(tmp_path: Path) -> None:
    cases = []
    for alert, case in CASES.items():
        series = [
            {
                "series": name.replace("{", "{" + ON + ("" if name.endswith("{}") else ","), 1),
                "values": f"{values}x{MINUTES}",
            }
            for name, values in case.items()
        ]
        cases.append((series, {alert}))
    _firing(tmp_path, cases)


def test_an_alert_says_which_station_and_what_to_do(tmp_path: Path) -> None:
    for group in _groups():
        for rule in group["rules"]:
            if "alert" in rule:
                assert rule["labels"]["severity"] in ("critical", "warning")
                assert "{{ $labels.instance }}" in rule["annotations"]["summary"]
                assert rule["annotations"]["action"]
    shown = {
        "eval_time": "10m",
        "alertname": "EdgeInferCameraLost",
        "exp_alerts": [
            {
                "exp_labels": {
                    "severity": "critical", "camera": "top", "state": "lost", "instance": "ipc7",
                    "job": "edge-infer",
                },
                "exp_annotations": {
                    "summary": "ipc7: camera top is lost",
                    "action": "the topic camera/top says why",
                },
            }
        ],
    }  # fmt: skip
    series = f'edge_infer_camera_state{{{ON},camera="top",state="lost"}}'
    test = {
        "rule_files": [str(ALERTS)],
        "tests": [
            {
                "interval": "1m",
                "input_series": [{"series": series, "values": "1+0x20"}],
                "alert_rule_test": [shown],
            }
        ],
    }
    (tmp_path / "test.yaml").write_text(yaml.safe_dump(test))
    promtool("test", "rules", str(tmp_path / "test.yaml"))


def test_a_real_prometheus_takes_what_a_running_service_tells(
    mosquitto: Mosquitto, tmp_path: Path, run: Run
) -> None:
    port = free_port()
    service = run(site(tmp_path / "site", mosquitto, metrics={"port": port}))
    with Prometheus(tmp_path / "prometheus", port, ALERTS, free_port()) as server:
        (judged,) = server.wait('edge_infer_decisions_total{station="cap",decision="NOK"} > 0')
        assert judged["metric"]["job"] == "edge-infer"
        assert server.wait("station:edge_infer_inspections:rate1m > 0")
        (taken,) = server.ask("scrape_samples_scraped == scrape_samples_post_metric_relabeling > 100")
        assert taken["value"]
        assert server.ask("up == 1")
        assert service.stop() == 0
        server.wait('ALERTS{alertname="EdgeInferDown",alertstate="pending"}')
