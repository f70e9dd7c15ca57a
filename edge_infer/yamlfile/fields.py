"""Which settings class stands behind a key path: for "did you mean" and for what must not be echoed."""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from edge_infer.settings import Secret
from edge_infer.yamlfile.tree import Map, Node, Path, Scalar, step


def models_at(annotation: Any, root: Node, path: Path) -> list[type[BaseModel]]:
    """The settings classes that may stand at ``path``, those first whose ``type`` fits what is written."""
    return [leaf for leaf in _leaves_at(annotation, root, path) if _is_model(leaf)]


def is_secret(annotation: Any, root: Node, path: Path) -> bool:
    """Whether ``path`` is a secret or stands inside one."""
    return any(
        leaf is Secret for end in range(len(path) + 1) for leaf in _leaves_at(annotation, root, path[:end])
    )


def keys_of(model: type[BaseModel]) -> dict[str, FieldInfo]:
    """The keys a settings class has in YAML."""
    return {field.alias or name: field for name, field in model.model_fields.items()}


def _leaves_at(annotation: Any, root: Node, path: Path) -> list[Any]:
    leaves = _narrow(list(_leaves(annotation)), root)
    node: Node | None = root
    for part in path:
        node = step(node, part) if node is not None else None
        below = [leaf for parent in leaves for child in _children(parent, part) for leaf in _leaves(child)]
        leaves = _narrow(below, node)
    return leaves


def _leaves(annotation: Any) -> Iterator[Any]:
    """The annotation without Annotated, unions and type aliases."""
    origin = get_origin(annotation)
    if origin is Annotated:
        yield from _leaves(get_args(annotation)[0])
    elif origin in (Union, types.UnionType):
        for member in get_args(annotation):
            yield from _leaves(member)
    else:
        yield annotation


def _children(parent: Any, part: str | int) -> Iterator[Any]:
    origin, arguments = get_origin(parent), get_args(parent)
    if _is_model(parent):
        field = keys_of(parent).get(str(part))
        if field is not None:
            yield field.annotation
    elif isinstance(origin, type) and issubclass(origin, Mapping) and len(arguments) == 2:
        yield arguments[1]
    elif origin in (tuple, list) and isinstance(part, int):
        repeated = origin is list or (len(arguments) == 2 and arguments[1] is ...)
        yield from arguments[:1] if repeated else arguments[part : part + 1]


def _narrow(leaves: list[Any], node: Node | None) -> list[Any]:
    """Only the classes whose ``type`` is the written one, where there are such."""
    written = step(node, "type") if isinstance(node, Map) else None
    if not isinstance(written, Scalar):
        return leaves
    fitting = [leaf for leaf in leaves if _is_model(leaf) and written.value in _types(leaf)]
    return fitting or leaves


def _types(model: type[BaseModel]) -> tuple[Any, ...]:
    field = model.model_fields.get("type")
    annotation = field.annotation if field is not None else None
    return get_args(annotation) if get_origin(annotation) is Literal else ()


def _is_model(leaf: Any) -> bool:
    return isinstance(leaf, type) and issubclass(leaf, BaseModel)
