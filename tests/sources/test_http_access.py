"""Who is let in by a camera with a web server, and where it may lead."""

from __future__ import annotations

import logging
import time
import traceback
from pathlib import Path

import pytest
from pydantic import ValidationError

from edge_infer.errors import SourceError
from edge_infer.settings import Secrets
from edge_infer.sources.http import Http
from tests.support.http_camera import HttpCamera
from tests.support.http_source import PASSWORD, SESAME, TOKEN, USER, lost, opened, read, refused
from tests.support.pki import Pki


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Pki:
    return Pki(tmp_path_factory.mktemp("pki") / "pki")


# -- passwords


@pytest.mark.parametrize(
    "schemes", [("Basic",), ("Digest MD5",), ("Digest SHA-256",), ("Basic", "Digest MD5", "Digest SHA-256")]
)
@pytest.mark.parametrize("path", ["/mjpeg", "/snapshot?size=full"])
def test_a_password_opens_the_camera(schemes: tuple[str, ...], path: str) -> None:
    with HttpCamera(user=USER, password=PASSWORD, schemes=schemes) as camera:
        with opened(camera.url(path), user=USER, password={"env": "CAM"}, interval_s=0.05) as source:
            for _ in range(3):
                read(source)
        assert "wants a user and a password" in refused(camera.url(path))
        message = refused(camera.url(path), user=USER, password={"env": "WRONG"})
        assert f"does not accept the user {USER} with this password" in message
        assert SESAME not in message


def test_a_wrong_password_is_tried_once() -> None:
    """Some cameras lock out after a few."""
    with HttpCamera(user=USER, password=PASSWORD) as camera:
        refused(camera.url(), user=USER, password={"env": "WRONG"})
        assert len(camera.requests) == 2


def test_a_login_that_has_expired_is_renewed() -> None:
    with HttpCamera(user=USER, password=PASSWORD) as camera:
        with opened(camera.url("/snapshot"), user=USER, password={"env": "CAM"}, interval_s=0.05) as source:
            read(source)
            camera.forget_nonces()
            _, stamp = read(source)
            for _ in range(3):
                _, stamp = read(source)
        assert time.monotonic() - stamp.time_s < 1


def test_no_secret_is_told(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    told = []
    with HttpCamera(user=USER, password=PASSWORD, schemes=("Basic",)) as camera:
        url = camera.url(f"/mjpeg?token={TOKEN}")
        with opened(url, user=USER, password={"env": "CAM"}, read_timeout_s=0.5) as source:
            read(source)
            told.append(repr(source))
            camera.freeze()
            told.append(lost(source, 3))
        cases = (
            ("/mjpeg", "WRONG"),
            ("/status/500", "CAM"),
            ("/garbage", "CAM"),
            ("/redirect/?http://x/", "CAM"),
        )
        for path, name in cases:
            settings = Http.model_validate(
                {"type": "http", "url": camera.url(f"{path}{'&' if '?' in path else '?'}token={TOKEN}"),
                 "user": USER, "password": {"env": name}}
            )  # fmt: skip
            with pytest.raises(SourceError) as caught:
                settings.open("top", Secrets({"CAM": PASSWORD, "WRONG": SESAME}))
            told.append("".join(traceback.format_exception(caught.value)))
            told.append(repr(caught.value.args))
    text = "\n".join([*told, caplog.text])
    for secret in (PASSWORD, SESAME, TOKEN):
        assert secret not in text


@pytest.mark.parametrize(
    ("url", "text"),
    [
        (f"http://u:{SESAME}@10.0.0.9/x", "must not hold user and password"),
        ("rtsp://10.0.0.9/x", "is not an HTTP address; write http://HOST:PORT/PATH"),
        ("http:///x", "is not an HTTP address"),
        ("http://10.0.0.9:99999/x", "is not an HTTP address"),
        ("http://10.0.0.9/a b", "must be percent-encoded"),
        ("http://10.0.0.9/a\r\nX-Evil: 1", "must be percent-encoded"),
    ],
)
def test_an_address_that_cannot_be_one_is_refused_without_repeating_it(url: str, text: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Http(type="http", url=url)
    assert text in str(caught.value)
    assert SESAME not in str(caught.value)


# -- where it leads


def test_a_redirect_on_the_same_host_is_followed_another_one_is_not() -> None:
    with HttpCamera() as camera, HttpCamera() as other:
        with opened(camera.url("/redirect/?/mjpeg")) as source:
            read(source)
        assert other.accepted == 0
        message = refused(camera.url(f"/redirect/?http://localhost:{other.port}/mjpeg"))
        assert "sends us to http://localhost, which is not followed" in message
        assert other.accepted == 0
        assert "from one address to the next without an end" in refused(
            camera.url("/redirect/?/redirect/?/redirect/")
        )


def test_no_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    with HttpCamera() as camera, HttpCamera() as proxy:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        with opened(camera.url()) as source:
            read(source)
        assert proxy.accepted == 0


def test_https_is_believed_only_with_a_trusted_certificate(pki: Pki) -> None:
    files = (pki.path("server.crt"), pki.path("server.key"))
    with HttpCamera(tls=files) as camera:
        for path in ("/mjpeg", "/snapshot"):
            with opened(camera.url(path), ca=pki.path("ca.crt")) as source:
                _, stamp = read(source)
                assert time.monotonic() - stamp.time_s < 0.3
        assert "certificate that is not trusted" in refused(camera.url())
        assert "cannot use the certificate authority" in refused(camera.url(), ca="/absent.crt")
        wrong = camera.url().replace("127.0.0.1", "localhost")
        assert "certificate that is not trusted" in refused(wrong, ca=pki.path("ca.crt"))
        plain = camera.url().replace("https", "http")
        assert "http" in refused(plain)
    with HttpCamera(tls=(pki.path("expired.crt"), pki.path("expired.key"))) as camera:
        assert "has expired" in refused(camera.url(), ca=pki.path("ca.crt"))
    with HttpCamera() as camera:
        assert "does not speak TLS" in refused(camera.url().replace("http:", "https:"))


def test_an_encrypted_stream_is_not_a_picture_late(pki: Pki) -> None:
    files = (pki.path("server.crt"), pki.path("server.key"))
    with HttpCamera(tls=files) as camera, opened(camera.url(), ca=pki.path("ca.crt")) as source:
        ages_s = []
        for _ in range(10):
            _, stamp = read(source)
            ages_s.append(time.monotonic() - stamp.time_s)
        assert sorted(ages_s)[5] < 0.1


def test_a_certificate_is_for_encrypted_addresses(tmp_path: Path) -> None:
    with pytest.raises(ValidationError, match="is for https"):
        Http(type="http", url="http://10.0.0.9/x", ca=tmp_path / "ca.crt")
    with pytest.raises(ValidationError, match="a password needs its user"):
        Http.model_validate({"type": "http", "url": "http://10.0.0.9/x", "password": {"env": "A"}})
