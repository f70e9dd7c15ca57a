"""pydantic's errors in the words of whoever writes requests, without what was written."""

from __future__ import annotations

from pydantic_core import ErrorDetails

from edge_infer.messages.command import NAME, PART_ID, RESULT_ID, Request
from edge_infer.yamlfile.explain import did_you_mean

_FORMS = {
    PART_ID: "must have 1 to 128 characters, none of them a control character (line break, tab, NUL)",
    NAME: "cannot be a name: 1 to 40 of A-Z a-z 0-9 _ -",
    RESULT_ID: "cannot be a result's id: 1 to 36 of 0-9 a-f -",
}
_WANTED = {
    "string_type": "must be text",
    "float_type": "must be a number",
    "finite_number": "must be a finite number",
    "datetime_type": 'must be text like "2026-11-30T12:00:00Z"',
    "datetime_parsing": 'must be a time like "2026-11-30T12:00:00Z"',
    "datetime_from_date_parsing": 'must be a time like "2026-11-30T12:00:00Z"',
    "timezone_aware": 'needs its time zone: "2026-11-30T12:00:00Z"',
    "missing": "is missing",
}
_BOUNDS = {
    "less_than_equal": "must be at most {le:g}",
    "greater_than_equal": "must be at least {ge:g}",
    "string_too_long": "must have at most {max_length} characters",
    "string_too_short": "must not be empty",
    "literal_error": "must be {expected}",
}


def in_words(error: ErrorDetails, wanted: type[Request]) -> str:
    """One mistake at its place; the place may be a key of the stranger's own, cut short."""
    kind, context = error["type"], error.get("ctx", {})
    place = ".".join(str(step) for step in error["loc"])[:40]
    if kind == "extra_forbidden":
        known = [field.alias or name for name, field in wanted.model_fields.items()]
        said = f"unknown key{did_you_mean(place, known)}"
    elif kind == "string_pattern_mismatch":
        said = _FORMS.get(context["pattern"], "does not have the form that is wanted")
    elif kind in _BOUNDS:
        said = _BOUNDS[kind].format(**context)
    else:
        said = _WANTED.get(kind, error["msg"])
    return f"{place}: {said}" if place else said
