"""What every piece of configuration is made of. Settings are data; only their ``open`` touches the world."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationInfo,
    model_validator,
)

from edge_infer.errors import EdgeInferError

Id = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]{1,40}$")]
"""A name that becomes part of a topic."""


class Settings(BaseModel):
    """Frozen, strict (no text for numbers, no bool for text), unknown keys are mistakes.

    Validated in JSON mode: sequences are tuples, paths are text.
    """

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, allow_inf_nan=False, use_attribute_docstrings=True
    )


def _from_base(path: Path, info: ValidationInfo) -> Path:
    base = info.context.get("base") if isinstance(info.context, Mapping) else None
    return Path(base) / path if base is not None else path


def _not_empty(value: Any) -> Any:
    if value == "":
        # else the folder of the file would be meant
        raise ValueError("is empty; wanted is a path")
    return value


SitePath = Annotated[
    Path, BeforeValidator(_not_empty, json_schema_input_type=Path), AfterValidator(_from_base)
]
"""A path, relative to the file it stands in (the validation context's ``base``)."""


def _number_one(value: Any) -> Any:
    # true and 1.0 are equal to 1
    if isinstance(value, bool | float):
        raise ValueError("wanted is the number 1")
    return value


FormatOne = Annotated[Literal[1], BeforeValidator(_number_one)]
"""``format: 1``."""

_UNITS = {"B": 1, "kB": 1000, "MB": 1000**2, "GB": 1000**3, "KiB": 1024, "MiB": 1024**2, "GiB": 1024**3}


def _bytes(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([A-Za-z]+)", value.strip())
    if not match or match[2] not in _UNITS:
        raise ValueError(
            f"{value!r} is not a size; write a number with one of {', '.join(_UNITS)}, like 500MB"
        )
    return int(float(match[1]) * _UNITS[match[2]])


Size = Annotated[int, BeforeValidator(_bytes, json_schema_input_type=int | str), Field(ge=0)]
"""Bytes; in YAML a number or text with a unit, like 500MB."""


class Secret(Settings):
    """Where a secret is; never the secret itself. Exactly one key."""

    file: SitePath | None = None
    """A file that holds only the secret; white space at its ends is dropped."""
    env: Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")] | None = None
    """An environment variable of the service."""
    credential: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._-]{1,200}$")] | None = None
    """A name given to the unit by LoadCredential=."""

    @model_validator(mode="after")
    def _exactly_one(self) -> Secret:
        if sum(value is not None for value in (self.file, self.env, self.credential)) != 1:
            raise ValueError("a secret needs exactly one of {file: PATH}, {env: NAME}, {credential: NAME}")
        return self


_HARMLESS = (
    *("PATH", "HOME", "LANG", "LC_", "TZ", "TMPDIR", "PYTHON", "LD_LIBRARY_PATH", "XDG_RUNTIME_DIR"),
    *("GENICAM_", "PYLON_", "OPENCV_", "GST_"),
)
"""How the names of variables begin that a library may need; any other one may hold a secret."""


class Secrets:
    """Reads secrets on this machine; never prints one."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ

    def needed_by(self, settings: Settings) -> dict[str, str]:
        """What ``Secrets`` needs to read those that the settings name, in another process of ours."""
        named = [value.env for value in dict(settings).values() if isinstance(value, Secret) and value.env]
        wanted = {*named, "CREDENTIALS_DIRECTORY"}
        return {name: value for name, value in self._environ.items() if name in wanted}

    def without_secrets(self) -> dict[str, str]:
        """The environment for a child process, which everybody of this user may read."""
        return {name: value for name, value in self._environ.items() if name.startswith(_HARMLESS)}

    def read(self, secret: Secret) -> str:
        """The secret's text; EdgeInferError where it is not on this machine."""
        if secret.env is not None:
            value = self._environ.get(secret.env)
            if not value:
                raise EdgeInferError(
                    f"the environment variable {secret.env} is not set or empty",
                    hint="set it for the service (EnvironmentFile=) or use {credential: NAME}",
                )
            return value
        path = self.path(secret)
        try:
            value = path.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
            raise EdgeInferError(
                f"cannot read the secret in {path}: {reason}", hint=self._remedy(secret)
            ) from error
        if not value:
            raise EdgeInferError(f"the secret in {path} is empty", hint=self._remedy(secret))
        return value

    def path(self, secret: Secret) -> Path:
        """The file a ``file`` or ``credential`` secret is in."""
        if secret.file is not None:
            return secret.file
        folder = self._environ.get("CREDENTIALS_DIRECTORY")
        if not folder:
            raise EdgeInferError(
                f"the credential {secret.credential} is not there: CREDENTIALS_DIRECTORY is not set",
                hint="run it under systemd, or use {file: PATH} when running by hand",
            )
        return Path(folder) / str(secret.credential)

    @staticmethod
    def _remedy(secret: Secret) -> str:
        if secret.credential is not None:
            return f"add LoadCredential={secret.credential}:/etc/edge-infer/{secret.credential} to the unit"
        return "create the file with the secret in it, readable by the service's user only"
