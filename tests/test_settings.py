from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from edge_infer.errors import EdgeInferError
from edge_infer.settings import Secret, Secrets, Size


@pytest.mark.parametrize(
    ("written", "size"), [(5, 5), ("500MB", 500_000_000), ("2 GB", 2 * 10**9), ("1.5KiB", 1536), ("0B", 0)]
)
def test_sizes_are_bytes_or_have_a_unit(written: Any, size: int) -> None:
    assert TypeAdapter(Size).validate_python(written) == size


@pytest.mark.parametrize("written", ["500", "500mb", "5 TB", "-1MB", "", -1, "1MB5"])
def test_a_size_that_could_mean_two_things_is_refused(written: Any) -> None:
    with pytest.raises(ValidationError):
        TypeAdapter(Size).validate_python(written)


def test_a_secret_is_in_exactly_one_place() -> None:
    for keys in ("{}", '{"env": "A", "credential": "b"}', '{"env": ""}', '{"value": "x"}'):
        with pytest.raises(ValidationError):
            Secret.model_validate_json(keys)


def test_secrets_are_read_from_file_environment_and_systemd(tmp_path: Path) -> None:
    (tmp_path / "mqtt").write_text("from systemd\n")
    secrets = Secrets({"PW": "from environment", "CREDENTIALS_DIRECTORY": str(tmp_path)})
    assert secrets.read(Secret(env="PW")) == "from environment"
    assert secrets.read(Secret(credential="mqtt")) == "from systemd"
    assert secrets.read(Secret(file=tmp_path / "mqtt")) == "from systemd"


@pytest.mark.parametrize(
    ("secret", "words"),
    [
        (Secret(env="PW"), "PW is not set"),
        (Secret(credential="mqtt"), "CREDENTIALS_DIRECTORY"),
        (Secret(file=Path("/nowhere/pw")), "No such file"),
        (Secret(file=Path("/dev/null")), "is empty"),
    ],
)
def test_a_secret_that_is_not_there_says_where_it_should_be(secret: Secret, words: str) -> None:
    with pytest.raises(EdgeInferError, match=words):
        Secrets({}).read(secret)


def test_a_credential_cannot_leave_its_folder() -> None:
    with pytest.raises(ValidationError):
        Secret(credential="../../etc/shadow")
