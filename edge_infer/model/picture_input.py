"""Completes ``input:`` of a card: which input takes the picture, and how a picture becomes it."""

from __future__ import annotations

from edge_infer.model.card import Color, InputCard, Layout, Resize, Tiles
from edge_infer.model.card_file import InputFile
from edge_infer.model.choices import Choices
from edge_infer.model.extra_inputs import is_known
from edge_infer.model.head import shapes
from edge_infer.model.told import Told
from edge_infer.model.usual import Usual
from edge_infer.tensor import TensorSpec

_DTYPES = ("float32", "float16", "uint8")
_CHANNELS = (1, 3)
_STRIDE = 32


class PictureInput:
    """First ``network_size``, which tells the head, then ``card()`` with what is usual for that head."""

    def __init__(
        self, written: InputFile, inputs: tuple[TensorSpec, ...], told: Told, choices: Choices
    ) -> None:
        """ConfigError or ModelError where no input can take the picture."""
        self._written = written
        self._inputs = inputs
        self._told = told
        self._choices = choices
        self._spec = self._picture_input()
        self._layout = self._layout_of(self._spec)
        self._any_size = (0, 0)
        choices.stop_if_wrong()

    @property
    def others(self) -> tuple[str, ...]:
        """Names of the inputs beside the picture."""
        return tuple(spec.name for spec in self._inputs if spec is not self._spec)

    def network_size(self, any_size: tuple[int, int] | None = None) -> tuple[int, int]:
        """height, width of the network's input; ConfigError or ModelError where nothing tells it.

        ``any_size``: taken where the sizes are free because the network resizes pictures itself.
        """
        self._any_size = any_size or (0, 0)
        height, width = self._fixed()
        cut = self._written.crop if self._resize() == "center_crop" else None
        wished = cut or self._written.size or self._told.size or any_size
        if wished is None:
            if height is None or width is None:
                self._choices.wrong(
                    ("input",),
                    f"the input {shapes([self._spec])} has no fixed size and nothing says which it was "
                    "trained with",
                    "say `input: {size: [height, width]}`",
                )
                self._choices.stop_if_wrong()
            wished = (0, 0)
        return height or self._rounded(wished[0]), width or self._rounded(wished[1])

    def card(self, usual: Usual) -> InputCard:
        """Mistakes go to the choices; ConfigError or ModelError only where nothing can follow."""
        spec, layout = self._spec, self._layout
        written, told = self._written, self._told
        channels_at = 1 if layout == "nchw" else 3
        channels = spec.shape[channels_at]
        color = self._color(channels, usual.color)
        count = 1 if color == "gray" else 3
        # pixels that stay bytes are not normalised
        as_is = spec.dtype == "uint8"
        resize = self._choices.pick("input.resize", written.resize, told.resize, usual.resize)
        size = self._size(whole=resize != "center_crop")
        scale = self._choices.pick("input.scale", written.scale, told.scale, 1.0 if as_is else usual.scale)
        mean, std = _usual_normalisation(Usual() if as_is else usual, color, scale)
        if usual.differs and not as_is and self._silent():
            self._choices.warnings.append(
                "nothing says how pictures are fed to this network: taken is what its family usually wants "
                f"({color}, {resize}, divided by {usual.scale:g}); say `input: {{color: ..., scale: ..., "
                "resize: ...}` in a model.yaml"
            )
        if scale > 1 and written.scale is None and max(written.mean or (0.0,)) > 1:
            self._choices.warnings.append(
                f"input.mean is subtracted after dividing by {scale:g}: numbers of 0..255 want `scale: 1`"
            )
        crop = written.crop if resize == "center_crop" else None
        if written.crop != crop:
            self._choices.warnings.append(f"input.crop means nothing with resize: {resize}; it is not used")
        card = InputCard(
            size=size,
            resize=resize,
            interpolation=self._choices.pick(
                "input.interpolation", written.interpolation, None, usual.interpolation
            ),
            align=self._choices.pick("input.align", written.align, told.align, usual.align),
            crop=self._choices.pick("input.crop", crop, None, self._cut(size, resize)),
            graph_crop=self._choices.pick("input.graph_crop", written.graph_crop, None, None),
            tiles=self._choices.pick("input.tiles", _tiles(written), None, None),
            pad_value=self._choices.pick(
                "input.pad_value", written.pad_value, told.pad_value, usual.pad_value
            ),
            color=color,
            layout=layout,
            scale=scale,
            mean=self._channels("mean", written.mean, told.mean, mean, count),
            std=self._channels("std", written.std, told.std, std, count),
            name=spec.name,
        )
        if spec.dtype == "uint8" and (card.scale != 1 or any(card.mean) or set(card.std) != {1.0}):
            self._choices.wrong(
                ("input", "scale"),
                f"the input {spec.name} takes uint8 pixels, which cannot be scaled or centred",
                "say `scale: 1` and leave out mean and std",
            )
        return card

    def _resize(self) -> Resize | None:
        """None: whatever is usual, which the head tells."""
        return self._written.resize or self._told.resize

    def _cut(self, size: tuple[int, int], resize: Resize) -> tuple[int, int] | None:
        """What the network takes of a picture that is resized to more than that."""
        height, width = self._fixed()
        if resize != "center_crop" or height is None or width is None or (height, width) == size:
            return None
        return height, width

    def _picture_input(self) -> TensorSpec:
        inputs = self._inputs
        pictures = [spec for spec in inputs if len(spec.shape) == 4]
        if not pictures:
            self._choices.unusable(f"no input takes a picture: {shapes(inputs) or 'it has none'}")
        unknown = [spec for spec in inputs if spec is not pictures[0] and not is_known(spec)]
        if unknown:
            self._choices.unusable(
                f"nobody knows what to feed to the network's inputs {shapes(unknown)}",
                "export it with the picture as its only input",
            )
        spec = pictures[0]
        if spec.dtype not in _DTYPES:
            self._choices.unusable(
                f"the input {spec.name} is {spec.dtype}", f"known are {', '.join(_DTYPES)}"
            )
        if spec.shape[0] not in (None, 1):
            self._choices.warnings.append(
                f"the network's batch is fixed at {spec.shape[0]}: every picture is computed that often; "
                "export it with a batch of 1"
            )
        return spec

    def _layout_of(self, spec: TensorSpec) -> Layout:
        first, last = spec.shape[1] in _CHANNELS, spec.shape[3] in _CHANNELS
        told: Layout | None = None if first == last else "nchw" if first else "nhwc"
        written = self._written.layout
        where = f"the input {shapes([spec])}"
        if told is None and not (first or None in (spec.shape[1], spec.shape[3])):
            self._choices.unusable(f"{where} has neither 1 nor 3 channels")
        if told is None and written is None:
            self._choices.wrong(
                ("input", "layout"), f"{where} may be channels first or last", "say `layout: nchw` or `nhwc`"
            )
        if written is not None and told not in (None, written):
            self._choices.wrong(("input", "layout"), f"{where} is {told}", "leave `layout` out")
        return self._choices.pick("input.layout", None if told else written, told, "nchw")

    def _silent(self) -> bool:
        written, told = self._written, self._told
        said = (written.color, written.scale, written.mean, written.std, told.color, told.scale, told.mean)
        return all(value is None for value in said)

    def _color(self, channels: int | None, usual: Color) -> Color:
        written = self._written.color
        fits = {1: ("gray",), 3: ("rgb", "bgr")}.get(channels or 0, ("rgb", "bgr", "gray"))
        if written is not None and written not in fits:
            self._choices.wrong(
                ("input", "color"), f"the network takes {channels} channels", f"say {' or '.join(fits)}"
            )
        if channels == 1:
            return self._choices.pick("input.color", None, "gray", "gray")
        return self._choices.pick("input.color", written, self._told.color, usual)

    def _fixed(self) -> tuple[int | None, ...]:
        shape = self._spec.shape
        return shape[2:4] if self._layout == "nchw" else shape[1:3]

    def _size(self, *, whole: bool) -> tuple[int, int]:
        """height, width; ``whole``: the resized picture is the network's input."""
        fixed = self._fixed()
        written = self._written.size
        if None not in fixed:
            height, width = (side or 0 for side in fixed)
            if written is not None and not whole:
                return self._choices.pick("input.size", written, None, written)
            if written is not None and written != (height, width):
                self._choices.wrong(
                    ("input", "size"),
                    f"{list(written)} given, but the network's input is fixed at {[height, width]}",
                    "leave `size` out, or export the network with that size",
                )
            return self._choices.pick("input.size", None, (height, width), (0, 0))
        wished = self._choices.pick("input.size", written, self._told.size, self._any_size)
        if self._told.size_is_exact and self._told.size not in (None, wished):
            self._choices.wrong(
                ("input", "size"),
                f"{list(wished)} given, but the network brings every picture to {self._told.size}",
                "leave `size` out",
            )
        # heads with grids refuse other sizes, deep inside and only when the first frame comes
        rounded = tuple(side or self._rounded(wish) for side, wish in zip(fixed, wished, strict=True))
        if rounded != wished:
            self._choices.warnings.append(
                f"the input size {list(wished)} became {list(rounded)}: sizes are multiples of {_STRIDE}"
            )
        return rounded[0], rounded[1]

    def _rounded(self, side: int) -> int:
        return side if self._told.size_is_exact else -(-side // _STRIDE) * _STRIDE

    def _channels(
        self,
        key: str,
        written: tuple[float, ...] | None,
        told: tuple[float, ...] | None,
        default: tuple[float, ...],
        count: int,
    ) -> tuple[float, ...]:
        values = self._choices.pick(f"input.{key}", written, told, default)
        if len(values) not in (1, count):
            self._choices.wrong(
                ("input", key), f"{len(values)} numbers, the network takes {count} channels",
                f"write {count} or 1",
            )  # fmt: skip
        return tuple(map(float, values * count if len(values) == 1 else values))


def _tiles(written: InputFile) -> Tiles | None:
    return None if written.tiles is None else Tiles(written.tiles.size, written.tiles.overlap)


def _usual_normalisation(
    usual: Usual, color: Color, scale: float
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """mean, std for pictures in ``color`` that were divided by ``scale``."""
    if scale != usual.scale:
        return (0.0,), (1.0,)
    if color == "gray":
        return (sum(usual.mean) / len(usual.mean),), (sum(usual.std) / len(usual.std),)
    if color != usual.color:
        return usual.mean[::-1], usual.std[::-1]
    return usual.mean, usual.std
