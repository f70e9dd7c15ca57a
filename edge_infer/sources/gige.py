"""Industrial cameras: GigE Vision and USB3 Vision, through Debian's libaravis."""

from __future__ import annotations

import ipaddress
from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from edge_infer.settings import Secrets, Size
from edge_infer.sources._driver import Driver
from edge_infer.sources._genicam.pixel_formats import BY_NAME
from edge_infer.sources._industrial import Industrial, Name


class Gige(Industrial):
    """``{type: gige, address: 10.0.0.5, pixel_format: BayerRG8, exposure_us: 5000, ...}``."""

    type: Literal["gige"]
    address: str | None = None
    """The camera's IPv4 address; one of address, serial and device_id."""
    serial: Name | None = None
    """The serial number on its label; it is searched for, which takes a second."""
    device_id: Name | None = None
    """The id of a search, as an error message lists it; for cameras whose serial numbers repeat."""
    pixel_format: str | None = None
    """GenICam's name: Mono8, BayerRG8, Mono12p. Without: what the camera is set to."""
    packet_size: int | None = Field(default=None, ge=220, le=16384)
    """Bytes; without: tried out. More than 1500 needs jumbo frames in every switch and network card."""
    packet_delay_ns: int | None = Field(default=None, ge=0, le=10**8)
    """Nanoseconds between packets; so that several cameras can share a link."""
    socket_buffer: Annotated[Size, Field(ge=65536, le=2**30)] = 8_000_000
    """For packets that wait; the kernel allows no more than net.core.rmem_max."""
    open_timeout_s: float = Field(default=8.0, gt=0, le=60)
    """Until it is set up."""
    read_timeout_s: float = Field(default=5.0, gt=0, le=60)
    """A camera that runs freely and gives nothing for so long is lost; one that waits for parts is asked."""

    @field_validator("address")
    @classmethod
    def _an_ipv4_address(cls, address: str | None) -> str | None:
        if address is not None:
            try:
                ipaddress.IPv4Address(address)
            except ValueError:
                text = "is not an IPv4 address; write it like 10.0.0.5, or name the camera by serial"
                raise ValueError(text) from None
        return address

    @field_validator("pixel_format")
    @classmethod
    def _a_known_format(cls, name: str | None) -> str | None:
        if name is not None and name not in BY_NAME:
            raise ValueError(f"is not one of the pixel formats that can be read: {', '.join(BY_NAME)}")
        return name

    @model_validator(mode="after")
    def _one_name(self) -> Gige:
        if sum(one is not None for one in (self.address, self.serial, self.device_id)) != 1:
            raise ValueError("name the camera by exactly one of address, serial and device_id")
        return self

    @property
    def name(self) -> str:
        """For people."""
        return self.address or self.serial or self.device_id or ""

    def connect(self, camera: str, secrets: Secrets) -> Driver:  # noqa: ARG002 - these have no passwords
        """Find the camera, take control of it, set it up and read back what it took."""
        from edge_infer.sources._genicam.connection import Connection

        return Connection(self, camera)
