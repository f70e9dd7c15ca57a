from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from edge_infer.errors import DeliveryError
from edge_infer.mqtt import certificates
from edge_infer.mqtt.settings import Tls
from tests.support.pki import Pki

NOW = datetime.now(UTC)


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Pki:
    made = Pki(tmp_path_factory.mktemp("certificates") / "pki")
    made.sign("soon", days=10)
    made.sign("over", days=-2, begins_in_days=-100)
    return made


def _tls(pki: Pki, ca: str, cert: str) -> Tls:
    files = {
        "ca": pki.path(f"{ca}.crt"),
        "cert": pki.path(f"{cert}.crt"),
        "key": pki.path("soon.key"),
    }
    return Tls.model_validate_json(json.dumps(files))


def test_the_days_that_are_left_are_read_from_the_file(pki: Pki) -> None:
    soon = certificates.read(Path(pki.path("soon.crt")), "device")
    assert soon.subject == "CN=soon"
    assert soon.days_left(NOW) == pytest.approx(10, abs=0.1)


@pytest.mark.parametrize(
    ("name", "says"),
    [("soon", "expires in 10 days"), ("over", "has expired on"), ("future", "is not valid before")],
)
def test_what_is_wrong_with_a_certificate_is_said_with_its_file(pki: Pki, name: str, says: str) -> None:
    told = dict(certificates.warnings(_tls(pki, "ca", name), NOW))
    assert says in told["cert"]
    assert f"{name}.crt" in told["cert"]
    # the authority of the tests holds for 30 days less some seconds
    told_later = dict(certificates.warnings(_tls(pki, name, "ca"), NOW))
    assert says in told_later["ca"]


def test_a_certificate_that_holds_long_is_no_news(pki: Pki) -> None:
    pki.sign("long", days=400)
    assert dict(certificates.warnings(_tls(pki, "long", "long"), NOW)) == {}


def test_of_an_authoritys_old_certificate_beside_its_successor_the_newer_counts(
    pki: Pki, tmp_path: Path
) -> None:
    pki.sign("long", days=400)
    bundle = tmp_path / "bundle.crt"
    bundle.write_text(Path(pki.path("over.crt")).read_text() + Path(pki.path("long.crt")).read_text())
    assert certificates.read(bundle, "ca").subject == "CN=long"
    # a device shows its own first, then who signed it
    assert certificates.read(bundle, "device").subject == "CN=over"


def test_a_file_that_holds_no_certificate_is_named(tmp_path: Path) -> None:
    file = tmp_path / "ca.crt"
    file.write_text("made up")
    with pytest.raises(DeliveryError, match=r"ca\.crt holds no certificate; wanted is PEM"):
        certificates.read(file, "ca")
    with pytest.raises(DeliveryError, match=r"none\.crt: No such file"):
        certificates.read(tmp_path / "none.crt", "ca")


def test_a_key_that_everybody_may_read_is_warned_of(pki: Pki) -> None:
    key = Path(pki.path("soon.key"))
    key.chmod(0o644)
    assert "chmod 600" in dict(certificates.warnings(_tls(pki, "long", "long"), NOW))["key"]
    key.chmod(0o640)
    assert "key" not in dict(certificates.warnings(_tls(pki, "long", "long"), NOW))


def test_files_that_are_not_there_are_no_news_to_check_on_another_machine(tmp_path: Path) -> None:
    tls = Tls(ca=tmp_path / "a", cert=tmp_path / "b", key=tmp_path / "c")
    assert list(certificates.warnings(tls, NOW)) == []
    assert list(certificates.of_files(tls)) == []


def test_an_expired_one_is_told_as_negative(pki: Pki) -> None:
    over = certificates.read(Path(pki.path("over.crt")), "broker")
    assert over.days_left(NOW) == pytest.approx(-2, abs=0.1)
    assert over.trouble(over.not_after - timedelta(days=31)) is None
    assert over.trouble(over.not_after - timedelta(days=29)) is not None
