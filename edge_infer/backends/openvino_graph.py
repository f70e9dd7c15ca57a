"""The graph that OpenVINO compiles for a card: every size fixed, preprocessing folded in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from edge_infer.backends.batching import NO_BATCHES
from edge_infer.backends.common import picture_shape, reason
from edge_infer.errors import ModelError
from edge_infer.model.card import ModelCard
from edge_infer.model.ir_file import output_name
from edge_infer.tensor import PictureSpec, TensorSpec

if TYPE_CHECKING:
    import openvino

# a message that is not UTF-8 (a damaged name in the file) becomes a ValueError
FAILURES = (RuntimeError, ValueError)
"""What OpenVINO raises."""
_UNTOUCHED = (1.0, (0.0, 0.0, 0.0), (1.0, 1.0, 1.0))


def with_preprocessing(core: openvino.Core, card: ModelCard, batch: int = 1) -> openvino.Model:
    """The card's network for uint8 NHWC pictures, BGR unless they are grey; ModelError: it cannot be used."""
    network = read(core, card, batch)
    try:
        _fold_preprocessing(card, network)
    except FAILURES as error:
        raise ModelError(f"OpenVINO cannot take pictures for {card.network}: {reason(error)}") from error
    return network


def read(core: openvino.Core, card: ModelCard, batch: int = 1) -> openvino.Model:
    """As stored, but with every size fixed: no runtime folds a free one, and an accelerator takes none.

    ModelError where the file cannot be used.
    """
    from openvino import PartialShape

    try:
        network = core.read_model(card.network)
        port = _picture_port(card, network)
        shape = picture_shape(card, spec_of(0, port))
        if batch > 1 and shape[0] == 1:
            shape = (batch, *shape[1:])
        if port.partial_shape != PartialShape(list(shape)):
            network.reshape({port: PartialShape(list(shape)), **_one_of_each(card, network)})
    except FAILURES as error:
        batches = f" in batches of {batch}" if batch > 1 else ""
        raise ModelError(
            f"OpenVINO cannot use {card.network}{batches}: {reason(error)}",
            hint=NO_BATCHES if batch > 1 else "export it again, or try the other backend",
        ) from error
    return network


def _one_of_each(card: ModelCard, network: openvino.Model) -> dict[Any, Any]:
    """The inputs beside the picture for a batch of one."""
    from openvino import PartialShape

    others = [port for port in network.inputs if not is_picture(card, port)]
    return {
        port: PartialShape([1, *list(port.partial_shape)[1:]])
        for port in others
        if len(port.partial_shape) and port.partial_shape[0].is_dynamic
    }


def _picture_port(card: ModelCard, network: openvino.Model) -> Any:
    for port in network.inputs:
        if is_picture(card, port):
            return port
    raise ModelError(f"OpenVINO finds no input {card.input.name} in {card.network}")


def is_picture(card: ModelCard, port: Any) -> bool:
    """Whether this input takes the picture."""
    return card.input.name in (port.get_names() or {port.node.friendly_name})


def folded_picture(card: ModelCard, port: Any) -> PictureSpec:
    """What the compiled network leaves to do: uint8 NHWC, BGR unless it is grey."""
    batch, height, width, channels = (side.get_length() for side in port.partial_shape)
    scale, mean, std = _UNTOUCHED
    return PictureSpec(
        name=card.input.name,
        shape=(batch, height, width, channels),
        dtype="uint8",
        layout="nhwc",
        height=height,
        width=width,
        color="gray" if card.input.color == "gray" else "bgr",
        scale=scale,
        mean=mean[:channels],
        std=std[:channels],
    )


def _fold_preprocessing(card: ModelCard, network: openvino.Model) -> None:
    from openvino import Layout, Type
    from openvino.preprocess import ColorFormat, PrePostProcessor

    port = _picture_port(card, network)
    processor = PrePostProcessor(network)
    picture = processor.input(network.inputs.index(port))
    picture.tensor().set_element_type(Type.u8).set_layout(Layout("NHWC"))
    picture.model().set_layout(Layout(card.input.layout.upper()))
    steps = picture.preprocess()
    if card.input.color != "gray":
        picture.tensor().set_color_format(ColorFormat.BGR)
    if card.input.color == "rgb":
        steps.convert_color(ColorFormat.RGB)
    if port.element_type != Type.u8:
        steps.convert_element_type(Type.f32)
        steps.scale(card.input.scale)
        steps.mean(list(card.input.mean)).scale(list(card.input.std))
        steps.convert_element_type(port.element_type)
    for index, output in enumerate(network.outputs):
        if output.element_type == Type.f16:
            # decoders are given float32 whatever the network computes in
            processor.output(index).tensor().set_element_type(Type.f32)
    processor.build()


def spec_of(index: int, port: Any) -> TensorSpec:
    """What an input or output of OpenVINO takes or gives."""
    shape = tuple(side.get_length() if side.is_static else None for side in port.partial_shape)
    name = output_name(index, port.node.friendly_name, port.get_names())
    return TensorSpec(name, shape, np.dtype(port.element_type.to_dtype()).name)
