"""Cameras with a web server: MJPEG streams and snapshots."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, ValidationInfo, field_validator

from edge_infer.settings import Secrets, SitePath
from edge_infer.sources._address import NetworkSettings, checked
from edge_infer.sources._driver import Driver


class Http(NetworkSettings):
    """``{type: http, url: "http://10.0.0.9/video.mjpg", user: u, password: {env: CAM}}``."""

    type: Literal["http"]
    url: str
    """http:// or https://, without user and password; what stands behind `?` is never shown."""
    ca: SitePath | None = None
    """With https: who signed the camera's certificate (PEM); default the system's authorities."""
    mode: Literal["auto", "mjpeg", "snapshot"] = "auto"
    """A stream of pictures, or one picture at each request; auto: as the camera answers."""
    interval_s: float = Field(default=0.5, gt=0, le=3600)
    """From one snapshot to the next."""
    open_timeout_s: float = Field(default=5.0, gt=0, le=60)
    """Until the camera has answered."""
    read_timeout_s: float = Field(default=5.0, gt=0, le=60)
    """A camera that sends no whole picture for so long is lost."""

    @field_validator("url")
    @classmethod
    def _an_address_without_secrets(cls, url: str) -> str:
        if not url.isascii() or not url.isprintable() or " " in url:
            raise ValueError("holds characters that must be percent-encoded, like %20 for a space")
        return checked(url, "http", "https")

    @field_validator("ca")
    @classmethod
    def _only_with_https(cls, ca: SitePath | None, info: ValidationInfo) -> SitePath | None:
        if ca is not None and str(info.data.get("url", "https:")).startswith("http:"):
            raise ValueError("is for https://; this address is not encrypted")
        return ca

    def connect(self, camera: str, secrets: Secrets) -> Driver:
        """Connect, authenticate, see whether it is a stream or a snapshot."""
        password = self.read_password(camera, secrets)
        from edge_infer.sources import _http_camera

        return _http_camera.connect(self, camera, password)
