"""How networks are opened for the stations that judge with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from edge_infer.backends.onnxruntime import OnnxRuntime
from edge_infer.config.site import load_site
from edge_infer.engines import backend_settings, profile
from tests.support.runs import RULE, site

LIVE = {"type": "rtsp", "url": "rtsp://127.0.0.1/s"}
TAPE = {"type": "synthetic", "frames": 10}
CAP = {"camera": "live", "model": "m", "rules": [RULE]}
PART = CAP | {"trigger": {"type": "mqtt"}}


@pytest.mark.parametrize(
    ("stations", "recipes", "expected"),
    [
        ({"a": CAP}, {}, "latency"),
        ({"a": CAP, "b": PART, "c": PART}, {}, "latency"),
        ({"a": CAP, "b": CAP}, {}, "throughput"),
        ({"a": CAP, "b": CAP | {"model": "n"}}, {}, "latency"),
        ({"a": CAP | {"camera": "tape"}}, {}, "throughput"),
        ({"a": CAP, "b": CAP | {"model": "n"}}, {"r": {"b": {"model": "m"}}}, "throughput"),
        # the same station in two recipes is one that streams
        ({"a": CAP}, {"r": {"a": {"deadline_ms": 400}}}, "latency"),
        ({"a": CAP, "b": CAP | {"camera": "replay"}}, {}, "throughput"),
        ({"a": CAP | {"camera": "replay"}}, {}, "latency"),
    ],
)
def test_the_stations_choose_how_their_model_is_compiled(
    tmp_path: Path, stations: dict[str, Any], recipes: dict[str, Any], expected: str
) -> None:
    path = site(
        tmp_path,
        None,
        cameras={"live": LIVE, "tape": TAPE, "replay": TAPE | {"realtime": True}},
        models={"m": {"path": "model"}, "n": {"path": "model"}},
        stations=stations,
        recipes=recipes,
    )
    assert profile(load_site(path), "m") == expected


def test_what_the_site_says_of_the_profile_holds(tmp_path: Path) -> None:
    path = site(
        tmp_path, None, models={"m": {"path": "model", "backend": {"type": "openvino", "profile": "latency"}}}
    )
    use = load_site(path).models["m"].backend
    assert use.in_profile("throughput").profile == "latency"


@pytest.mark.parametrize("recipes", [{}, {"r": {"a": {"model": "n"}}}])
def test_onnx_runtimes_threads_spin_only_where_the_site_uses_no_other_model(
    tmp_path: Path, recipes: dict[str, Any]
) -> None:
    path = site(
        tmp_path,
        None,
        cameras={"live": LIVE},
        models={name: {"path": "model", "backend": {"type": "onnxruntime"}} for name in ("m", "n")},
        stations={"a": CAP},
        recipes=recipes,
    )
    backend = backend_settings(load_site(path), "m")
    assert isinstance(backend, OnnxRuntime)
    assert backend.spinning is (False if recipes else None)
