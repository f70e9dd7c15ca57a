"""Parts of a card that only one task has."""

from __future__ import annotations

from dataclasses import replace

from edge_infer.model.card import AnomalyCard, InputCard, Task
from edge_infer.model.card_file import CardFile
from edge_infer.model.choices import Choices
from edge_infer.model.head import shapes
from edge_infer.model.network_file import NetworkFile
from edge_infer.model.outputs import SEVERAL, SEVERAL_HINT, one_a_picture, plain
from edge_infer.model.tasks import class_scores
from edge_infer.model.told import Told
from edge_infer.model.usual import USUAL, Usual

_PROBABLE = ("softmax", "sigmoid")
_LOGITS = (
    "add", "averagepool", "avgpool", "batchnormalization", "conv", "convolution", "convolutionbackpropdata",
    "convtranspose", "gemm", "globalaveragepool", "logsoftmax", "matmul", "reducemean",
)  # fmt: skip
"""Operations after which a value may be any number."""


def usual_for(decoder: str, told: Told) -> Usual:
    """How pictures are fed where nothing says."""
    usual = USUAL.get(decoder, Usual())
    if decoder == "semantic" and told.exporter == "Ultralytics":
        return replace(usual, resize="letterbox")
    if told.exporter == "Model API":
        # its own resizing is plain
        return replace(usual, interpolation="linear")
    return usual


class TaskCompletion:
    """What the network says of itself and the card of the network, put together."""

    def __init__(self, written: CardFile, network: NetworkFile, told: Told, choices: Choices) -> None:
        self._written = written
        self._network = network
        self._told = told
        self._choices = choices

    def anomaly(self, task: Task) -> AnomalyCard | None:
        """How a score is normalised; None where the network does it, a mistake where nothing tells."""
        written = self._written.anomaly
        if task != "anomaly":
            if written is not None:
                self._choices.warnings.append(f"anomaly means nothing for the task {task}; it is not used")
            return None
        chosen = self._choices.pick(
            "anomaly", AnomalyCard(**written.model_dump()) if written else None, self._told.anomaly, None
        )
        outputs = self._network.outputs
        if not one_a_picture(outputs):
            self._choices.unusable(f"{SEVERAL} ({shapes(outputs)})", SEVERAL_HINT)
        if chosen is None and not any(plain(spec.name) == "pred_score" for spec in outputs):
            self._choices.wrong(
                ("anomaly",),
                f"nothing tells from which score on ({shapes(outputs)}) a part is not normal",
                "put anomalib's metadata.json beside the network, or say "
                "`anomaly: {threshold: ..., min: ..., max: ...}`",
            )
        return chosen

    def graph_crop(self, card: InputCard) -> InputCard:
        """The part of the input that an anomaly map shows, where the network cuts the rest off itself."""
        maps = [spec.shape[-2:] for spec in self._network.outputs if len(spec.shape) >= 3]
        height, width = card.crop or card.size
        if card.graph_crop is not None or not maps or None in maps[0]:
            return card
        rows, columns = (side or 1 for side in maps[0])
        # a coarse map of the whole input has a whole number of pixels a value
        if rows > height or columns > width or not (height % rows or width % columns):
            return card
        self._choices.origins["input.graph_crop"] = "guess"
        self._choices.warnings.append(
            f"the map is {rows}x{columns} for an input of {height}x{width}: taken is that it shows the "
            f"middle; say `input: {{graph_crop: [{rows}, {columns}]}}`, else [{height}, {width}]"
        )
        return replace(card, graph_crop=(rows, columns))

    def logits(self) -> bool | None:
        """Whether class scores are still to become probabilities; None where the operations do not tell."""
        outputs = self._network.outputs
        # features may stand before the scores; a map of classes is the only output
        floats = [spec.name for spec in class_scores(outputs) or outputs if spec.dtype.startswith("float")]
        last = self._network.last.get(floats[0], "").lower() if floats else ""
        if last in (*_PROBABLE, *_LOGITS):
            return last in _LOGITS
        if floats:
            self._choices.warnings.append(
                f"the network ends in {last or 'an operation that is not known'}: whether its scores are "
                "probabilities or logits is told by their values, picture by picture"
            )
        return None
