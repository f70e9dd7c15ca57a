"""From a model and frames to the tuned folder: quantise, judge, measure, choose, write."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edge_infer.backends.blobs import Blobs
from edge_infer.errors import EdgeInferError, ModelError
from edge_infer.golden import reference_backend, require
from edge_infer.model.card import ModelCard
from edge_infer.model.load import load_model
from edge_infer.model.network_file import read_network
from edge_infer.network import Network
from edge_infer.picture import read
from edge_infer.quantize import SUFFIX, QuantizeError, missing, quantise
from edge_infer.tune.agreement import Agreement, Limits, lowered, why_not
from edge_infer.tune.calibration import write_tensors
from edge_infer.tune.candidates import Variant, ways
from edge_infer.tune.card import Golden, keep_golden, write_model
from edge_infer.tune.choice import Aim, Judged, Tried, choose
from edge_infer.tune.energy import Meter
from edge_infer.tune.frames import Frames, Place, digest_of, divide, pictures
from edge_infer.tune.part import building, scratch
from edge_infer.tune.speed import measure, median

_MEASURED_WITH = 8
"""Held-out frames that are run in turn for the speed; they stay in memory."""
_RUNS = {"onnxruntime": ("onnxruntime-qdq",), "openvino": ("nncf", "nncf-dense")}
"""Backend -> how networks are quantised for it."""

Tell = Callable[[str, float, str], None]
"""What is done, how much of it (0..1), and what is in hand."""


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the user may say."""

    aim: Aim = "throughput"
    limits: Limits = field(default_factory=Limits)
    calibration: int = 100
    """Frames, at most."""
    held_out: int = 200
    """Frames, at most."""
    seconds: float = 2.0
    """Of one window."""
    rounds: int = 3
    """Windows of each candidate; between two of them all others have their turn."""
    devices: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Backend -> devices that are tried."""
    bf16: Callable[[str], bool] = lambda _: False
    """Whether an OpenVINO device computes in bfloat16."""


@dataclass(slots=True)
class Outcome:
    """Everything that the report tells."""

    card: ModelCard
    data: Path
    frames: Frames
    wishes: Wishes
    reference: str
    """The backend that FP32 is."""
    calibrated_with: int = 0
    judged: list[Judged] = field(default_factory=list)
    tried: list[Tried] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    """What was not tried and why, as sentences."""
    chosen: Tried | None = None
    golden: Golden = field(default_factory=lambda: Golden(0, "nothing was chosen"))
    quantise_s: dict[str, float] = field(default_factory=dict)


def tune(
    model: Path,
    data: Path,
    out: Path,
    wishes: Wishes,
    *,
    meter: Meter,
    tell: Tell,
    report: Callable[[Outcome, Path], None],
) -> Outcome:
    """Write the tuned model to ``out``; ``report`` writes its files into the folder that becomes it.

    EdgeInferError where the data does not suffice or nothing may be chosen. ``model`` is only read.
    """
    card = load_model(model)
    with building(out.absolute()) as folder:
        tell("frames", 0.0, str(data))
        _refuse_failing(card)
        golden = [read(one.image).pixels for one in card.golden]
        frames = divide(
            data,
            calibration=wishes.calibration,
            held_out=wishes.held_out,
            taken=frozenset(digest_of(pixels) for pixels in golden),
        )
        outcome = Outcome(card, data, frames, wishes, reference_backend(card).type)
        variants = _variants(outcome, scratch(folder), tell)
        _judge(outcome, variants, golden, tell)
        _measure(outcome, Blobs(scratch(folder) / "blobs"), meter, tell)
        outcome.chosen = _chosen(outcome)
        variant = outcome.chosen.judged.variant
        quantised = variant.method is not None
        write_model(folder, card, variant.card.network, quantised=quantised)
        settings = replace(outcome.chosen.candidate, requests=outcome.chosen.requests).settings
        outcome.golden = keep_golden(folder, card, settings, quantised=quantised)
        report(outcome, folder)
    return outcome


def _refuse_failing(card: ModelCard) -> None:
    """ModelError where it finds something else than it should: made anew, golden pictures would hide that."""
    if not card.golden:
        return
    network = Network.open(card, reference_backend(card))
    try:
        require(network)
    finally:
        network.close()


def _variants(outcome: Outcome, place: Path, tell: Tell) -> list[Variant]:
    """FP32, BF16 where there is, and what could be quantised; what could not is judged at once."""
    card, wishes = outcome.card, outcome.wishes
    onnx = card.network.suffix.lower() == ".onnx"
    variants = [
        Variant(backend, device, "FP32", card)
        for backend, devices in wishes.devices.items()
        for device in devices
        if onnx or backend == "openvino"
    ]
    variants += [
        Variant("openvino", device, "BF16", card)
        for device in wishes.devices.get("openvino", ())
        if wishes.bf16(device)
    ]
    methods = [
        (backend, method)
        for backend in wishes.devices
        for method in _RUNS[backend]
        if onnx or backend == "openvino"
    ]
    absent = {method: packages for _, method in methods if (packages := missing(method))}
    if absent:
        names = ", ".join(sorted(set(itertools.chain.from_iterable(absent.values()))))
        outcome.skipped.append(
            f"INT8 by {' and '.join(absent)} is not tried: {names} is not installed; "
            "pip install 'edge-infer[quantize]'"
        )
        methods = [(backend, method) for backend, method in methods if method not in absent]
    calibration = None
    for number, (backend, method) in enumerate(methods):
        tell("quantise", number / len(methods), method)
        made = [Variant(backend, device, "INT8", card, method) for device in outcome.wishes.devices[backend]]
        begin = time.monotonic()
        try:
            if calibration is None:
                calibration = write_tensors(card, outcome.frames.calibration, place / "calibration.npy")
                outcome.calibrated_with = calibration.frames
            network = quantise(
                method,
                card.network,
                place / f"{method}{SUFFIX[method]}",
                picture=calibration.picture,
                tensors=calibration.tensors,
                others=calibration.others,
            )
            quantised = replace(card, network=network, sha256=read_network(network).sha256)
        except (QuantizeError, ModelError) as error:
            outcome.judged += [Judged(variant, rejected=str(error)) for variant in made]
            continue
        finally:
            outcome.quantise_s[method] = round(time.monotonic() - begin, 1)
        variants += [replace(variant, card=quantised) for variant in made]
    return variants


@dataclass(slots=True)
class _Open:
    judged: Judged
    network: Network
    golden: Agreement


def _judge(
    outcome: Outcome, variants: Sequence[Variant], golden: Sequence[NDArray[np.uint8]], tell: Tell
) -> None:
    """Every variant over the held-out frames beside FP32, one frame at a time."""
    card, limits = outcome.card, outcome.wishes.limits
    threshold = card.score_threshold
    reference = Network.open(_lowered(card), reference_backend(card))
    opened: list[_Open] = []
    try:
        for variant in variants:
            judged = Judged(variant, Agreement(card.task, threshold))
            outcome.judged.append(judged)
            try:
                network = Network.open(_lowered(variant.card), variant.settings())
            except EdgeInferError as error:
                judged.agreement, judged.rejected = None, str(error)
                continue
            opened.append(_Open(judged, network, Agreement(card.task, threshold)))
        places = outcome.frames.held_out
        for number, pixels in enumerate(itertools.chain(golden, pictures(places))):
            tell("judge", number / (len(places) + len(golden)), f"{len(opened)} variants")
            found = reference.infer(pixels).findings
            for one in [each for each in opened if each.judged.rejected is None]:
                agreement = one.golden if number < len(golden) else one.judged.agreement
                try:
                    if agreement is not None:
                        agreement.add(found, one.network.infer(pixels).findings)
                except EdgeInferError as error:
                    one.judged.rejected = str(error)
    finally:
        for one in opened:
            one.network.close()
        reference.close()
    for one in opened:
        judged = one.judged
        if judged.rejected is None and judged.agreement is not None:
            judged.rejected = why_not(judged.agreement, limits, exact=judged.variant.exact)
        if judged.rejected is None and (one.golden.missing or one.golden.extra or one.golden.undefined):
            judged.rejected = (
                f"answers the golden pictures otherwise: {one.golden.missing} of {one.golden.sure} sure "
                f"findings are missing, {one.golden.extra} are too many"
            )


def _measure(outcome: Outcome, blobs: Blobs, meter: Meter, tell: Tell) -> None:
    """Every candidate that runs, also those that were rejected: what accuracy costs is worth knowing."""
    wishes = outcome.wishes
    shown = list(pictures(_spread(outcome.frames.held_out)))
    outcome.tried = [
        Tried(candidate, judged)
        for judged in outcome.judged
        if judged.agreement is not None
        for candidate in ways(judged.variant)
    ]
    done, total = 0, wishes.rounds * len(outcome.tried)
    for number in range(wishes.rounds):
        # forwards and backwards: what grows warm or busy meanwhile falls on all alike
        for one in outcome.tried if number % 2 == 0 else reversed(outcome.tried):
            tell("measure", done / total, str(one.candidate))
            done += 1
            if one.failed is not None:
                continue
            try:
                network = Network.open(one.candidate.variant.card, one.candidate.settings, blobs)
                try:
                    one.requests = network.requests
                    one.windows.append(measure(network, shown, wishes.seconds, meter))
                finally:
                    network.close()
            except EdgeInferError as error:
                one.failed = str(error)
    for one in outcome.tried:
        if one.windows:
            one.speed = median(one.windows)


def _spread(places: Sequence[Place]) -> list[Place]:
    most = min(_MEASURED_WITH, len(places))
    return [places[i * len(places) // most] for i in range(most)]


def _chosen(outcome: Outcome) -> Tried:
    chosen = choose(outcome.tried, outcome.wishes.aim)
    if chosen is None:
        reasons = [one.rejected for one in outcome.judged if one.rejected] or [
            one.failed for one in outcome.tried if one.failed
        ]
        why = reasons[0] if reasons else "nothing was tried"
        raise EdgeInferError(
            f"{outcome.card.network}: nothing may be chosen: {why}",
            hint="see whether `edge-infer model inspect --verify` runs it and its golden pictures pass",
        )
    return chosen


def _lowered(card: ModelCard) -> ModelCard:
    return replace(card, score_threshold=lowered(card))
