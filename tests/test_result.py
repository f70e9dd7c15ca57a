from __future__ import annotations

import json
import math
import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from pydantic import ValidationError

from edge_infer.result import DetectionContent, Result, RuleOutcome, json_schema, new_result_id
from tests.support.results import result


def _published(one: Result) -> dict[str, Any]:
    numbered = one.model_copy(update={"seq": 1, "stream_id": str(uuid.uuid4())})
    loaded: dict[str, Any] = json.loads(numbered.as_json())
    return loaded


def _validate(message: dict[str, Any]) -> None:
    jsonschema.validate(message, json_schema(), format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER)


def test_the_schema_file_is_what_the_code_says() -> None:
    file = Path(__file__).parents[1] / "docs" / "schema" / "result-1.schema.json"
    assert json.loads(file.read_text()) == json_schema(), "run: python docs/schema/generate.py"
    jsonschema.Draft202012Validator.check_schema(json_schema())


@pytest.mark.parametrize("decision", ["OK", "NOK", "UNDEFINED"])
@pytest.mark.parametrize("part_id", [None, "part-1"])
def test_published_results_fit_the_schema(decision: Any, part_id: str | None) -> None:
    message = _published(result(decision=decision, part_id=part_id))
    _validate(message)
    assert message["schema"] == "result/1"
    assert ("partId" in message) == (part_id is not None)


def test_a_result_without_a_frame_and_a_model_fits_the_schema() -> None:
    bare = result(decision="UNDEFINED").model_copy(
        update={
            "processing_times": None,
            "captured_at": None,
            "age_ms": None,
            "frame_seq": None,
            "model": None,
        }
    )
    _validate(_published(bare))


def test_the_schema_refuses_a_result_without_a_number() -> None:
    with pytest.raises(jsonschema.ValidationError):
        _validate(json.loads(result().as_json()))


def test_the_schema_lets_readers_meet_keys_they_do_not_know() -> None:
    message = _published(result())
    message["newKey"] = 1
    message["device"]["newKey"] = 1
    _validate(message)


@pytest.mark.parametrize("nonsense", [math.nan, math.inf, -math.inf])
def test_nan_cannot_get_into_a_result(nonsense: float) -> None:
    with pytest.raises(ValidationError):
        DetectionContent(label="cap", score=nonsense, box=(0, 0, 1, 1))
    with pytest.raises(ValidationError):
        DetectionContent(label="cap", score=1.0, box=(0, nonsense, 1, 1))
    with pytest.raises(ValidationError):
        RuleOutcome(name="r", decision="OK", seen=nonsense)


@pytest.mark.parametrize(
    "label", ["Deckel fehlt ä", "瓶盖", "غطاء", "крышка", "🧴", 'a"b\\c', "a/+#b", "\u0000"]
)
def test_labels_may_be_in_any_script(label: str) -> None:
    message = _published(result(label=label))
    assert message["resultContent"][0]["label"] == label


def test_times_without_a_zone_are_refused() -> None:
    with pytest.raises(ValidationError):
        Result.model_validate({**result().model_dump(), "creation_time": datetime(2026, 1, 1)})  # noqa: DTZ001


def test_result_ids_sort_by_time() -> None:
    now = datetime(2026, 1, 2, tzinfo=UTC)
    ids = [new_result_id(now + timedelta(milliseconds=i)) for i in range(100)]
    assert ids == sorted(ids)
    assert {uuid.UUID(one).version for one in ids} == {7}
