"""Completes a card: every value with where it comes from, and a refusal where nobody can know."""

from __future__ import annotations

from types import MappingProxyType
from typing import cast

from edge_infer.model.card import Background, GoldenImage, ModelCard, Origin, Task
from edge_infer.model.card_file import CardFile
from edge_infer.model.choices import Choices
from edge_infer.model.head import Head, Unclear, shapes
from edge_infer.model.heads import BUILT, classes_of, tell_head
from edge_infer.model.labels import named, shown, without_background
from edge_infer.model.multi_heads import MULTI, Seen, any_size, read_as
from edge_infer.model.network_file import NetworkFile
from edge_infer.model.picture_input import PictureInput
from edge_infer.model.task_parts import TaskCompletion, usual_for
from edge_infer.model.tasks import TASKS, WHOLE_PICTURE, TaskHead, tell_task, tell_task_head
from edge_infer.model.told import Told
from edge_infer.model.usual import USUAL
from edge_infer.yamlfile import Document


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
        self._task: Task = "detect"
        self._keypoints: tuple[int, int] | None = None

    def card(self) -> ModelCard:
        """ConfigError with all mistakes of the card; ModelError where there is no card to mend."""
        written, choices = self._written, self._choices
        picture = PictureInput(written.input, self._network.inputs, self._told, choices)
        size = picture.network_size(any_size(self._network.outputs))
        self._task = self._tell_task(size)
        decoder, background, labels = self._head(size, picture.others)
        input_card = picture.card(usual_for(decoder, self._told))
        more = TaskCompletion(written, self._network, self._told, choices)
        if self._task == "anomaly":
            input_card = more.graph_crop(input_card)
        if input_card.tiles is not None and self._task != "detect":
            choices.wrong(
                ("input", "tiles"),
                f"networks for the task {self._task} look at the whole picture",
                "leave `tiles` out",
            )
        anomaly = more.anomaly(self._task)
        choices.stop_if_wrong()
        choices.pick("name", None if self._bare else written.name, None, written.name)
        return ModelCard(
            name=written.name,
            version=choices.pick("version", written.version, None, None),
            network=self._network.path,
            sha256=self._network.sha256,
            task=self._task,
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
            anomaly=anomaly,
            keypoints=self._keypoints,
            logits=more.logits() if self._task in ("classify", "semantic") else None,
            golden=tuple(GoldenImage(golden.image, golden.expect) for golden in written.golden),
            license=choices.pick("license", written.license, None, None),
            origins=MappingProxyType(choices.origins),
            warnings=(*choices.warnings, *(self._told.warnings or ())),
        )

    def _tell_task(self, size: tuple[int, int]) -> Task:
        written, told = self._written.task, self._told.task
        if written is None and self._written.decoder in WHOLE_PICTURE:
            # each of these decoders has one task, of its own name
            told = cast("Task", self._written.decoder)
        elif written is None and self._written.decoder in MULTI:
            told = "detect"
        if written is None and told is None:
            by_id, _ = self._named()
            shaped = tell_task(self._network.outputs, size, None if by_id is None else len(by_id))
            if isinstance(shaped, Unclear):
                self._choices.wrong(("task",), shaped.why, "say `task: anomaly` or `task: semantic`")
                self._choices.stop_if_wrong()
            else:
                told = shaped
        detect: Task = "detect"
        task = self._choices.pick("task", written, told, detect)
        if task not in TASKS:
            self._choices.unusable(
                f"this version cannot judge the task {task}", f"it can judge {', '.join(TASKS)} networks"
            )
        return task

    def _head(
        self, size: tuple[int, int], inputs: tuple[str, ...]
    ) -> tuple[str, Background, tuple[str, ...]]:
        """``inputs``: names of those beside the picture."""
        if self._task == "anomaly":
            self._choices.origins["decoder"] = "network" if self._written.decoder is None else "card"
            return "anomaly", "none", ()
        by_id, origin = self._named()
        by_number = isinstance(self._written.labels, dict)
        all_named = by_id
        by_id, named_background = without_background(by_id, by_number=by_number)
        background = self._written.background or named_background
        # a mapping may name only some classes
        told = self._decoder(size, None if by_number or by_id is None else len(by_id), background, inputs)
        if isinstance(told, Unclear):
            choice = " or ".join(told.fitting) if told.fitting else "one of docs/models.md"
            self._choices.wrong((told.key,), told.why, told.advice or f"say `decoder:` ({choice})")
            return "", "none", ()
        if told.decoder not in (*MULTI, "semantic"):
            # its rows have no column that means nothing: a class of that name is one
            by_id, background = all_named, self._written.background
        usual = told.background
        if by_number and told.background == "first":
            # the numbers of a mapping are the network's own
            if told.classes is None:
                usual = "none"
            else:
                by_id = {number - 1: name for number, name in (by_id or {}).items()}
        chosen = self._choices.pick("background", background, None, usual)
        classes = None if told.classes is None else told.classes - (chosen != "none")
        if by_id is None and classes in (None, 1) and told.decoder in USUAL:
            by_id, origin = self._usual_labels(told.decoder), "default"
        return told.decoder, chosen, self._labels(by_id, origin, classes)

    def _decoder(
        self,
        size: tuple[int, int],
        count: int | None,
        background: Background | None,
        inputs: tuple[str, ...],
    ) -> Head | Unclear:
        outputs, written = self._network.outputs, self._written.decoder
        anchors = self._written.anchors or ()
        if self._task != "detect":
            return self._task_head(size, count, background)
        if written is None:
            head = tell_head(
                outputs, size, count, self._told, background=background, inputs=inputs, anchors=anchors
            )
            if isinstance(head, Head):
                self._choices.origins["decoder"] = "network"
                by_number = tell_head(
                    outputs, size, None, self._told, background=background, inputs=inputs, anchors=anchors
                )
                if (
                    head.decoder == "rtdetr"
                    and isinstance(by_number, Unclear)
                    and "detr" in by_number.fitting
                ):
                    # one label more or less, and it would be the other
                    self._choices.origins["decoder"] = "guess"
                    self._choices.warnings.append(
                        "read as rtdetr because its classes are as many as the labels; where one of them "
                        "means no object say `decoder: detr` and leave that label out"
                    )
        else:
            self._choices.origins["decoder"] = "card"
            head = self._as_written(written, Seen(outputs, size, inputs, anchors))
        if isinstance(head, Head) and head.decoder not in BUILT:
            self._choices.unusable(
                f"the head ({shapes(outputs)}) needs the decoder {head.decoder}, "
                f"this version has {', '.join(BUILT)}"
            )
        return head

    def _task_head(
        self, size: tuple[int, int], count: int | None, background: Background | None
    ) -> TaskHead | Unclear:
        written, nothing = self._written.decoder, background or "none"
        # these heads have a column for every label, also for one that is called background
        classes = None if count is None else count + (nothing != "none")
        head = tell_task_head(
            self._task, self._network.outputs, size, self._told,
            classes=classes, written=written, background=nothing,
        )  # fmt: skip
        self._choices.origins["decoder"] = "network" if written is None else "card"
        if isinstance(head, TaskHead):
            self._keypoints = head.keypoints
            if head.guess:
                self._choices.warnings.append(f"{head.guess}: taken is {head.keypoints}")
        return head

    def _as_written(self, decoder: str, seen: Seen) -> Head | Unclear:
        if decoder in MULTI:
            return read_as(decoder, seen)
        classes = classes_of(decoder, seen.outputs, seen.size) if decoder in BUILT else None
        return classes if isinstance(classes, Unclear) else Head(decoder, classes)

    def _usual_labels(self, decoder: str) -> dict[int, str] | None:
        labels = USUAL[decoder].labels
        return None if labels is None else dict(enumerate(labels))

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
        hint = f"name {classes}, in the network's order"
        if classes == names + 1 and self._choices.origins.get("task") == "default":
            hint += ", or say `task: obb` if the last column is an angle"
        self._choices.wrong((key,), message, hint)
