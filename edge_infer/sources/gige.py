"""Industrial cameras: GigE Vision and USB3 Vision, through Debian's libaravis."""

from __future__ import annotations

import ipaddress
from typing import Annotated, Literal

from pydantic import Field, StringConstraints, field_validator, model_validator

from edge_infer.settings import Secrets, Size
from edge_infer.sources._driver import Driver, DriverSettings
from edge_infer.sources._genicam.pixel_formats import BY_NAME

_Name = Annotated[str, StringConstraints(pattern=r"^[!-~]{1,128}$")]
_Feature = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,99}$")]


class Gige(DriverSettings):
    """``{type: gige, address: 10.0.0.5, pixel_format: BayerRG8, exposure_us: 5000, ...}``."""

    type: Literal["gige"]
    address: str | None = None
    """The camera's IPv4 address; one of address, serial and device_id."""
    serial: _Name | None = None
    """The serial number on its label; it is searched for, which takes a second."""
    device_id: _Name | None = None
    """The id of a search, as an error message lists it; for cameras whose serial numbers repeat."""
    pixel_format: str | None = None
    """GenICam's name: Mono8, BayerRG8, Mono12p. Without: what the camera is set to."""
    width: int | None = Field(default=None, ge=1, le=65535)
    """Pixels; without width, height and the offsets: what the camera is set to."""
    height: int | None = Field(default=None, ge=1, le=65535)
    """Pixels."""
    offset_x: int | None = Field(default=None, ge=0, le=65535)
    """Pixels from the sensor's left edge."""
    offset_y: int | None = Field(default=None, ge=0, le=65535)
    """Pixels from the sensor's upper edge."""
    exposure_us: float | None = Field(default=None, gt=0, le=1e8)
    """Microseconds; switches the camera's automatic exposure off."""
    gain_db: float | None = Field(default=None, ge=-100, le=100)
    """Decibel; switches the automatic gain off. Cameras with a raw gain only: write it under features."""
    frame_rate: float | None = Field(default=None, gt=0, le=10000)
    """Frames a second of a camera that runs freely."""
    trigger: Literal["line", "software"] | None = None
    """What makes it take a picture: its own line (a light barrier), or a part that asks. Without: nothing."""
    line: _Feature | None = None
    """With `trigger: line`: the input the light barrier is wired to, as the camera names it, like Line1."""
    packet_size: int | None = Field(default=None, ge=220, le=16384)
    """Bytes; without: tried out. More than 1500 needs jumbo frames in every switch and network card."""
    packet_delay_ns: int | None = Field(default=None, ge=0, le=10**8)
    """Nanoseconds between packets; so that several cameras can share a link."""
    socket_buffer: Annotated[Size, Field(ge=65536, le=2**30)] = 8_000_000
    """For packets that wait; the kernel allows no more than net.core.rmem_max."""
    features: dict[_Feature, bool | int | float | str] = Field(default_factory=dict)
    """Any other GenICam feature, set in this order before all else; true runs a command."""
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
    def _keys_that_belong_together(self) -> Gige:
        if sum(one is not None for one in (self.address, self.serial, self.device_id)) != 1:
            raise ValueError("name the camera by exactly one of address, serial and device_id")
        if (self.trigger == "line") != (self.line is not None):
            raise ValueError(
                "trigger: line and line: NAME go together; line is the input as the camera names it"
            )
        if self.trigger is not None and self.frame_rate is not None:
            raise ValueError("a camera that waits for a trigger has no frame_rate")
        return self

    @property
    def name(self) -> str:
        """For people."""
        return self.address or self.serial or self.device_id or ""

    @property
    def has_line(self) -> bool:
        """True with ``trigger: line``: each of its pictures is of a part."""
        return self.trigger == "line"

    @property
    def waits(self) -> bool:
        """True with a trigger: without parts there are no pictures."""
        return self.trigger is not None

    def connect(self, camera: str, secrets: Secrets) -> Driver:  # noqa: ARG002 - these have no passwords
        """Find the camera, take control of it, set it up and read back what it took."""
        from edge_infer.sources._genicam.connection import Connection

        return Connection(self, camera)
