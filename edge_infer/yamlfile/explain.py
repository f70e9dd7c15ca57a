"""pydantic's errors in the operator's words: one sentence a mistake, at its place in the file."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

from pydantic_core import ErrorDetails

from edge_infer.yamlfile.fields import is_secret, keys_of, models_at
from edge_infer.yamlfile.scalars import as_bool, quoted, read_elsewhere
from edge_infer.yamlfile.tree import TRAP, Map, Node, Path, Scalar, find, mask, one_line, step
from edge_infer.yamlfile.tree import Sequence as List

_FORMS = "{file: PATH}, {env: NAME} or {credential: NAME}"

_WANTED = {
    "string_type": "text",
    "path_type": "a path",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "int_parsing": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "dict_type": "a mapping (key: value)",
    "model_type": "a mapping (key: value)",
    "model_attributes_type": "a mapping (key: value)",
    "tuple_type": "a list",
    "list_type": "a list",
    "none_required": "nothing",
}
_TEXT_LIKE = {"string_type", "path_type", "literal_error", "string_pattern_mismatch"}
_NUMBER_LIKE = {"int_type", "int_from_float", "float_type", "int_parsing", "float_parsing", "finite_number"}
_ID_PATTERN = "^[A-Za-z0-9_-]{1,40}$"
_ENV_NAME = r"[A-Z_][A-Z0-9_]*"
_SHOWN = 60


@dataclass(frozen=True, slots=True)
class Said:
    """One mistake in words."""

    path: Path
    sentence: str
    about_key: bool = False
    """It is the key that is wrong, not the value."""


@dataclass(slots=True)
class _Found:
    """One pydantic error, resolved against the file."""

    error: ErrorDetails
    path: Path
    branches: list[tuple[Path, str]] = field(default_factory=list)
    """Where a union was entered, and which member it was."""
    trapped: bool = False
    """The value is a trap, so that no type accepted it."""
    inside_trap: bool = False
    """What was said is about the trap's stand-in, a mapping."""
    about_key: bool = False

    @property
    def kind(self) -> str:
        return self.error["type"]


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """``; did you mean "x"?`` or the list of what is known; empty where nothing is."""
    names = sorted(str(name) for name in known)
    close = _close(word, names)
    if close:
        return f"; did you mean {quoted(close)}?"
    return f"; known: {', '.join(names)}" if names else ""


def _close(word: str, known: Iterable[str]) -> str | None:
    lowered = {name.lower(): name for name in known}
    return next((lowered[name] for name in get_close_matches(word.lower(), lowered, n=1, cutoff=0.6)), None)


def show(written: str) -> str:
    """A written value, short, on one line, without an address's password."""
    text = one_line(mask(written))
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


def explain(annotation: Any, root: Node, at: Path, errors: Sequence[ErrorDetails]) -> list[Said]:
    """What is wrong with the node at ``at``, which was validated as ``annotation``. Each mistake once."""
    top = find(root, at)
    if top is None:
        raise KeyError(at)
    found = _choose_branches([_resolve(top, error) for error in errors])
    by_path: dict[Path, list[_Found]] = defaultdict(list)
    for one in found:
        by_path[one.path].append(one)
    said: dict[Said, None] = {}
    for path, group in by_path.items():
        about_key = any(
            (one.about_key or one.kind == "extra_forbidden") and not one.inside_trap for one in group
        )
        shown = _without_a_secret(annotation, top, path)
        for sentence in _sentences(annotation, top, path, group):
            said[Said((*at, *shown), one_line(sentence), about_key)] = None
    return list(said)


def _without_a_secret(annotation: Any, top: Node, path: Path) -> Path:
    """The path to show: a key inside a secret that is no key's name may be the secret itself."""
    if not path or not is_secret(annotation, top, path[:-1]):
        return path
    name = str(path[-1])
    known = {key for model in models_at(annotation, top, path[:-1]) for key in keys_of(model)}
    return path if _close(name, known) or re.fullmatch(_ENV_NAME, name) else path[:-1]


def _resolve(top: Node, error: ErrorDetails) -> _Found:
    found = _Found(error, ())
    node = top
    for index, part in enumerate(error["loc"]):
        child = step(node, part)
        if part == TRAP:
            found.inside_trap = True
            break
        if part == "[key]":
            found.about_key = True
        elif child is not None:
            found.path, node = (*found.path, part), child
        elif error["type"] == "missing" and isinstance(node, Scalar):
            found.inside_trap = True
        elif error["type"] == "missing" and index == len(error["loc"]) - 1:
            found.path = (*found.path, part)
        else:
            found.branches.append((found.path, str(part)))
    found.trapped = isinstance(node, Scalar) and node.reading == "trap"
    if error["type"] == "extra_forbidden" and not found.inside_trap:
        found.trapped = False
    if error["type"].startswith("union_tag") and isinstance(node, Map):
        meant = "type" if "type" in node.entries else _close("type", node.entries)
        found.path = (*found.path, meant) if meant else found.path
        found.about_key = meant not in (None, "type")
    return found


def _choose_branches(found: list[_Found]) -> list[_Found]:
    """Of a union without a ``type`` keep what was said by the member that fits best."""
    members: dict[Path, dict[str, list[_Found]]] = defaultdict(lambda: defaultdict(list))
    for one in found:
        for position, label in one.branches:
            members[position][label].append(one)
    dropped: set[int] = set()
    for position, labels in members.items():
        inside = {
            label: group
            for label, group in labels.items()
            if any(len(one.path) > len(position) for one in group)
        }
        if len(labels) > 1 and inside:
            best = min(inside, key=lambda label: len(inside[label]))
            dropped.update(id(one) for label, group in labels.items() if label != best for one in group)
    return [one for one in found if id(one) not in dropped]


def _sentences(  # noqa: PLR0911 - one return a kind of mistake
    annotation: Any, top: Node, path: Path, group: list[_Found]
) -> list[str]:
    node = find(top, path)
    kinds = {one.kind for one in group}
    if node is None:
        return [_missing(annotation, top, path)]
    if "extra_forbidden" in kinds and not any(one.trapped for one in group):
        return [_unknown_key(annotation, top, path, node)]
    if is_secret(annotation, top, path):
        return [_secret(one, node, annotation, top, path) for one in group[:1]]
    if any(one.about_key and not one.kind.startswith("union_tag") for one in group):
        return [_key(str(path[-1]), one) for one in group if one.about_key]
    tags = [one for one in group if one.kind.startswith("union_tag")]
    if tags and any(one.about_key for one in tags):
        return [f"unknown key{did_you_mean(str(path[-1]), ['type'])}"]
    if tags and (isinstance(node, Map) or path[-1:] == ("type",)):
        return [_type_key(tags[0], node)]
    wanted = _all_wanted(group)
    if any(one.trapped for one in group) or wanted:
        return [_wrong_type(node, {one.kind for one in group if not one.inside_trap}, wanted)]
    return [_constraint(one, node) for one in group]


def _missing(annotation: Any, top: Node, path: Path) -> str:
    for model in models_at(annotation, top, path[:-1]):
        key = keys_of(model).get(str(path[-1]))
        if key is not None and key.description:
            return f"is missing ({key.description.strip().splitlines()[0].rstrip('.')})"
    return "is missing"


def _unknown_key(annotation: Any, top: Node, path: Path, node: Node) -> str:
    parent = path[:-1]
    known = {key for model in models_at(annotation, top, parent) for key in keys_of(model)}
    name = str(path[-1])
    if is_secret(annotation, top, parent) and not _close(name, known):
        return _secret_braces(name, node) or f"unknown key; a secret is {_FORMS}"
    return f"unknown key{did_you_mean(name, known)}"


def _secret_braces(name: str, node: Node) -> str | None:
    """{MQTT_PASSWORD} without quotes is a mapping with one key and no value."""
    if not (isinstance(node, Scalar) and node.reading == "null" and not node.written):
        return None
    form = f"{{env: {name}}}" if re.fullmatch(_ENV_NAME, name) else "{env: NAME}"
    return (
        f"a name in braces is a mapping in YAML, not a placeholder; write {form} for an environment variable"
    )


def _secret(one: _Found, node: Node, annotation: Any, top: Node, path: Path) -> str:
    if isinstance(node, Map):
        only = [key for key, entry in node.entries.items() if _secret_braces(key, entry.value)]
        known = {key for model in models_at(annotation, top, path) for key in keys_of(model)}
        if len(node.entries) == 1 and only and only[0] not in known:
            return str(_secret_braces(only[0], node.entries[only[0]].value))
        return f"a secret needs exactly one of {_FORMS}"
    if one.kind in ("model_type", "model_attributes_type") or one.trapped:
        return f"a secret is never written into this file; name its place: {_FORMS}"
    return f"is not the name of a secret's place; wanted is {_WANTED.get(one.kind, 'a name')}"


def _key(name: str, one: _Found) -> str:
    if one.kind == "string_pattern_mismatch" and one.error.get("ctx", {}).get("pattern") == _ID_PATTERN:
        return (
            f"{show(quoted(name))} cannot be a name: 1 to 40 of A-Z a-z 0-9 _ - (it becomes part of a topic)"
        )
    wanted = _WANTED.get(one.kind)
    return f"{show(quoted(name))} cannot be a key here" + (f"; wanted is {wanted}" if wanted else "")


def _type_key(one: _Found, node: Node) -> str:
    context = one.error.get("ctx", {})
    known = re.findall(r"'([^']*)'", str(context.get("expected_tags", "")))
    if isinstance(node, Scalar):
        written = show(node.written) or "nothing"
        return f"{written} is not a type that is known{did_you_mean(node.written, known)}"
    return "the key type is missing" if isinstance(node, Map) else f"wanted is one of {', '.join(known)}"


def _all_wanted(group: list[_Found]) -> list[str]:
    """What would be right, in words, each once; empty where the type is right and the value is not."""
    wanted: dict[str, None] = {}
    for one in group:
        if one.kind == "literal_error":
            wanted.update(dict.fromkeys(_expected(one)))
        elif one.inside_trap or one.kind.startswith("union_tag"):
            wanted[_WANTED["dict_type"]] = None
        elif one.kind in _WANTED:
            wanted[_WANTED[one.kind]] = None
    return list(wanted)


def _expected(one: _Found) -> list[str]:
    """The values of a Literal; pydantic tells them as ``'a', 'b' or 3``."""
    listed = str(one.error.get("ctx", {}).get("expected", ""))
    return [value.strip("'") for value in re.split(r", | or ", listed)]


def _wrong_type(node: Node, kinds: set[str], wanted: list[str]) -> str:
    wish = f"wanted is {' or '.join(wanted)}"
    if isinstance(node, Map):
        names = list(node.entries)
        if node.in_braces and len(names) == 1 and _secret_braces(names[0], node.entries[names[0]].value):
            text = f"{{{names[0]}}}"
            return f"{show(text)} without quotes is a mapping, {wish}; put it in quotes: {show(quoted(text))}"
        return f"a mapping is written here; {wish}"
    if isinstance(node, List):
        return f"a list is written here; {wish}"
    if not node.plain:
        return _quoted_scalar(node, kinds, wish, wanted)
    if node.reading == "null":
        return (
            f"nothing is written here; {wish}" if not node.written else f"{node.written} is nothing; {wish}"
        )
    return _plain_scalar(node, kinds, wish, wanted)


def _quoted_scalar(node: Scalar, kinds: set[str], wish: str, wanted: list[str]) -> str:
    if kinds & (_NUMBER_LIKE | {"bool_type"}) and not kinds & _TEXT_LIKE:
        return f"{show(quoted(node.written))} is text because of its quotes; {wish}"
    return f"{show(quoted(node.written))} is text; {wish}{_suggest(node, wanted)}"


def _plain_scalar(node: Scalar, kinds: set[str], wish: str, wanted: list[str]) -> str:
    written = show(node.written)
    boolean = as_bool(node.written)
    if "bool_type" in kinds and boolean:
        return f"{written} is not true or false; write {boolean}"
    if node.reading != "text" and kinds & _TEXT_LIKE and not kinds & _NUMBER_LIKE:
        options = [word for word in wanted if word not in _WANTED.values()]
        if not options or node.written in options:
            read = read_elsewhere(node.written)
            return f"{written} without quotes is read {read}, not as text; write {show(quoted(node.written))}"
    if node.reading == "trap" and kinds & _NUMBER_LIKE:
        return f"{written} is not a plain decimal number (like 10 or 0.5); {wish}"
    if "int_from_float" in kinds or ("int_type" in kinds and node.reading == "number"):
        whole = isinstance(node.value, float) and node.value.is_integer()
        return f"{written} is not a whole number" + (f"; write {int(float(node.written))}" if whole else "")
    what = {"number": " is a number", "bool": " is true or false", "trap": " is not text"}.get(
        node.reading, ""
    )
    return f"{written}{what or ' is text'}; {wish}{_suggest(node, wanted)}"


def _suggest(node: Scalar, wanted: list[str]) -> str:
    options = [word for word in wanted if word not in _WANTED.values()]
    close = get_close_matches(node.written.lower(), options, n=1, cutoff=0.6)
    return f"; did you mean {quoted(close[0])}?" if close else ""


def _constraint(one: _Found, node: Node) -> str:
    context = one.error.get("ctx", {})
    written = show(node.written) if isinstance(node, Scalar) else ""
    if one.kind == "string_pattern_mismatch" and isinstance(node, Scalar):
        name = show(quoted(node.written))
        if context.get("pattern") == _ID_PATTERN:
            return f"{name} cannot be a name: 1 to 40 of A-Z a-z 0-9 _ - (it becomes part of a topic)"
        return f"{name} does not have the form {context.get('pattern')}"
    if one.kind in ("value_error", "assertion_error"):
        message = str(context.get("error", one.error["msg"]))
        if isinstance(node, Scalar) and node.written:
            message = message.replace(node.written, mask(node.written))
        return mask(message)
    if one.kind in ("too_long", "too_short"):
        limit = (
            f"at most {context['max_length']}"
            if one.kind == "too_long"
            else f"at least {context['min_length']}"
        )
        return f"{context['actual_length']} entries are written here; wanted are {limit}"
    message = one.error["msg"][:1].lower() + one.error["msg"][1:]
    message = message.removeprefix("input ").replace("value should", "should")
    return f"{written}: {message}" if written else message
