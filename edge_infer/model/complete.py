"""Completes a card: every value with where it comes from, and a refusal where nobody can know."""

from __future__ import annotations

from types import MappingProxyType
from typing import cast

from edge_infer.model.card import AnomalyCard, Background, GoldenImage, ModelCard, Origin, Task
from edge_infer.model.card_file import CardFile
from edge_infer.model.choices import Choices
from edge_infer.model.head import Head, Unclear, shapes
from edge_infer.model.heads import BUILT, classes_of, tell_head
from edge_infer.model.labels import named, shown
from edge_infer.model.network_file import NetworkFile
from edge_infer.model.picture_input import PictureInput
from edge_infer.model.told import Told
from edge_infer.model.usual import USUAL, Usual
from edge_infer.yamlfile import Document

_TASKS: tuple[Task, ...] = ("detect",)
"""What this version can judge."""


class Completion:
    """One card on its way; use ``card()`` once."""

    def __init__(
        self,
        written: CardFile,
        document: Document | None,
        network: NetworkFile,
        told: Told,
        labels: tuple[str, ...] | None,
    ) -> None:
        """``document`` is where ``written`` stands, None for a bare network; ``labels``: of labels_file."""
        self._written = written
        self._bare = document is None
        self._network = network
        self._told = told
        self._labels_file = labels
        self._choices = Choices(document, network.path)

    def card(self) -> ModelCard:
        """ConfigError with all mistakes of the card; ModelError where there is no card to mend."""
        written, choices = self._written, self._choices
        task = self._task()
        picture = PictureInput(written.input, self._network.inputs, self._told, choices)
        no_background: Background = "none"
        background = choices.pick("background", written.background, None, no_background)
        decoder, labels = self._head(picture.network_size(), background)
        input_card = picture.card(USUAL.get(decoder, Usual()))
        choices.stop_if_wrong()
        choices.pick("name", None if self._bare else written.name, None, written.name)
        return ModelCard(
            name=written.name,
            version=choices.pick("version", written.version, None, None),
            network=self._network.path,
            sha256=self._network.sha256,
            task=task,
            decoder=decoder,
            labels=labels,
            background=background,
            anchors=choices.pick("anchors", written.anchors, None, ()),
            input=input_card,
            score_threshold=choices.pick(
                "score_threshold", written.score_threshold, self._told.score_threshold, 0.25
            ),
            nms_iou=choices.pick("nms_iou", written.nms_iou, self._told.nms_iou, 0.45),
            max_detections=choices.pick("max_detections", written.max_detections, None, 300),
            anomaly=AnomalyCard(**written.anomaly.model_dump()) if written.anomaly else None,
            golden=tuple(GoldenImage(golden.image, golden.expect) for golden in written.golden),
            license=choices.pick("license", written.license, None, None),
            origins=MappingProxyType(choices.origins),
            warnings=tuple(choices.warnings),
        )

    def _task(self) -> Task:
        detect: Task = "detect"
        task = self._choices.pick("task", self._written.task, self._told.task, detect)
        if task not in _TASKS:
            self._choices.unusable(
                f"this version cannot judge the task {task}", f"it can judge {', '.join(_TASKS)} networks"
            )
        return task

    def _head(self, size: tuple[int, int], background: Background) -> tuple[str, tuple[str, ...]]:
        by_id, origin = self._named()
        extra = 0 if background == "none" else 1
        # a mapping may name only some classes
        count = None if by_id is None or isinstance(self._written.labels, dict) else len(by_id) + extra
        told = self._decoder(size, count)
        if isinstance(told, Unclear):
            choice = " or ".join(told.fitting) if told.fitting else "one of docs/models.md"
            self._choices.wrong(("decoder",), told.why, f"say `decoder:` ({choice})")
            return "", ()
        classes = None if told.classes is None else told.classes - extra
        return told.decoder, self._labels(by_id, origin, classes)

    def _decoder(self, size: tuple[int, int], count: int | None) -> Head | Unclear:
        outputs, written = self._network.outputs, self._written.decoder
        if written is None:
            head = tell_head(outputs, size, count, self._told)
            if isinstance(head, Head):
                self._choices.origins["decoder"] = "network"
        else:
            self._choices.origins["decoder"] = "card"
            classes = classes_of(written, outputs, size) if written in BUILT else None
            head = classes if isinstance(classes, Unclear) else Head(written, classes)
        if isinstance(head, Head) and head.decoder not in BUILT:
            self._choices.unusable(
                f"the head ({shapes(outputs)}) needs the decoder {head.decoder}, "
                f"this version has {', '.join(BUILT)}"
            )
        return head

    def _named(self) -> tuple[dict[int, str] | None, Origin]:
        written = self._written.labels
        if isinstance(written, dict):
            return written, "card"
        for labels, origin in (
            (written, "card"),
            (self._labels_file, "card"),
            (self._told.labels, "network"),
        ):
            if labels:
                return dict(enumerate(labels)), cast("Origin", origin)
        return None, "guess"

    def _labels(self, by_id: dict[int, str] | None, origin: Origin, classes: int | None) -> tuple[str, ...]:
        """``classes``: of the head, background left out; None where its rows hold any class id."""
        self._choices.origins["labels"] = origin
        if by_id is None:
            if classes is None:
                self._choices.wrong(
                    ("labels",),
                    "nothing names the classes, and the network does not tell how many there are",
                    "say `labels: [...]`",
                )
                return ()
            labels = named({}, classes)
            self._choices.warnings.append(
                f"nothing names the {classes} classes: they are called {shown(labels)}"
            )
            return labels
        highest = max(by_id) + 1
        if classes is None:
            return named(by_id, highest)
        partly = isinstance(self._written.labels, dict)
        if highest > classes or (highest < classes and not partly):
            self._misfit(highest, classes, origin)
        if len(by_id) < classes:
            self._choices.warnings.append(
                f"labels name {len(by_id)} of {classes} classes, the others are called by number"
            )
        return named(by_id, classes)

    def _misfit(self, names: int, classes: int, origin: Origin) -> None:
        message = (
            f"{names} labels, but the network's head has {classes} classes ({shapes(self._network.outputs)})"
        )
        if origin == "network":
            self._choices.unusable(f"its metadata names {message}", "say the right `labels:` in a model.yaml")
        key = "labels" if self._labels_file is None else "labels_file"
        self._choices.wrong((key,), message, f"name {classes}, in the network's order")
