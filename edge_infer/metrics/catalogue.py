"""Every metric there is: name, kind, labels, meaning. Base units.

What labels may say is a closed or a configured list, never a part, a result or a text.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Metric:
    """One of them. Counters count since the start of the service."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    meaning: str
    labels: tuple[str, ...] = ()


def _counter(name: str, meaning: str, *labels: str) -> Metric:
    return Metric(f"edge_infer_{name}_total", "counter", meaning, labels)


def _gauge(name: str, meaning: str, *labels: str) -> Metric:
    return Metric(f"edge_infer_{name}", "gauge", meaning, labels)


def _histogram(name: str, meaning: str, *labels: str) -> Metric:
    return Metric(f"edge_infer_{name}_seconds", "histogram", meaning, labels)


# -- the service
BUILD = _gauge("build_info", "Always 1; what runs.", "version", "python")
CONFIGURATION = _gauge("configuration_info", "Always 1; the hash of the file that runs.", "sha256")
CLOCK_SYNCED = _gauge(
    "clock_synced", "1 where a time service keeps the clock, else 0; absent where nobody knows."
)

LOOP_LATE = _gauge(
    "loop_late_seconds", "How much later than it promised a part of the service comes on; 0 is well.", "loop"
)

# -- stations
STATION = _gauge(
    "station_info", "Always 1; what the station runs.", "station", "camera", "model", "trigger", "recipe"
)
DECISIONS = _counter(
    "decisions", "Inspections that were answered, published as results or not.", "station", "decision"
)
REASONS = _counter("reasons", "Why decisions were UNDEFINED; deadline is among them.", "station", "reason")
TRIGGERS = _counter("triggers", "Parts that asked for an inspection.", "station")
FRAMES_DROPPED = _counter(
    "frames_dropped", "Frames that a newer one replaced before the network was free.", "station"
)
DECISION_AGE = _gauge("decision_age_seconds", "Since the newest decision, or the start.", "station")
JUDGED_FRAME_AGE = _gauge(
    "judged_frame_age_seconds",
    "Since the newest frame that was inspected was taken; grows while none is.",
    "station",
)
STAGE = _histogram(
    "stage_duration", "How long preprocess, infer and postprocess took for a frame.", "station", "stage"
)
CAPTURE_TO_DECISION = _histogram(
    "capture_to_decision", "From the taking of a frame to its decision.", "station"
)

# -- cameras
CAMERA_STATE = _gauge(
    "camera_state", "1 at the state that the camera is in, 0 at the others.", "camera", "state"
)
CAMERA_FRAMES = _counter("camera_frames", "Frames that the camera gave; up to 5 s late.", "camera")
CAMERA_DROPPED = _counter(
    "camera_frames_dropped", "Frames lost between camera and service; up to 5 s late.", "camera"
)
CAMERA_DAMAGED = _counter("camera_frames_damaged", "Frames that came damaged; up to 5 s late.", "camera")
CAMERA_PACKETS_LOST = _counter(
    "camera_packets_lost", "Network packets lost, of cameras that count them; up to 5 s late.", "camera"
)
CAMERA_RECONNECTIONS = _counter("camera_reconnections", "Times that the camera was opened again.", "camera")
CAMERA_FPS = _gauge(
    "camera_frames_per_second", "What the camera delivers, over 5 s; absent at first.", "camera"
)

# -- models
MODEL = _gauge(
    "model_info",
    "Always 1; what the model is and where it runs.",
    *("model", "name", "version", "sha256", "backend", "requested", "running", "precision"),
)
MODEL_FAILED = _gauge("model_failed", "1 where the model cannot run, else 0.", "model")
MODEL_REQUESTS = _gauge("model_requests", "Frames that may be in the network at once.", "model")
MODEL_REQUESTS_IN_USE = _gauge("model_requests_in_use", "Frames that are in hand just now.", "model")

# -- outbox
OUTBOX_MESSAGES = _gauge("outbox_messages", "Messages that wait for the broker or are on the wire.")
OUTBOX_BYTES = _gauge("outbox_bytes", "Size of what waits.")
OUTBOX_IN_HAND = _gauge("outbox_in_hand", "Messages that are not committed to the disk yet.")
OUTBOX_OLDEST_AGE = _gauge(
    "outbox_oldest_age_seconds", "Age of the oldest message that waits; 0 where none does."
)
OUTBOX_DEAD = _gauge("outbox_dead_letters", "Refused messages that are kept aside.")
OUTBOX_IN_MEMORY = _gauge(
    "outbox_in_memory", "1 while the disk cannot be written: what waits does not survive the process."
)
OUTBOX_COMMITTED = _counter("outbox_committed", "Messages committed.")
OUTBOX_REFUSED = _counter("outbox_refused", "Messages that the broker refused.")
OUTBOX_GIVEN_UP = _counter(
    "outbox_given_up", "Results and events given up for want of room or age: gaps.", "decision"
)
OUTBOX_EVENTS_LOST = _counter("outbox_events_lost", "Events that found no room.")

# -- MQTT
MQTT_CONNECTED = _gauge("mqtt_connected", "1 while the broker lets us in, else 0.")
MQTT_RECONNECTIONS = _counter("mqtt_reconnections", "Connections after the first.")
MQTT_DELIVERED = _counter("mqtt_delivered", "Results, events and gaps that the broker took.")
MQTT_REFUSED = _counter("mqtt_refused", "Messages of any kind that the broker refused.")
MQTT_IN_FLIGHT = _gauge("mqtt_in_flight", "Messages on the wire.")
MQTT_TAKEN_OVER = _counter("mqtt_taken_over", "Times that another client used our id, or seemed to.")
MQTT_IMAGES = _counter("mqtt_images", "Pictures that the broker took.")
MQTT_IMAGES_DROPPED = _counter("mqtt_images_dropped", "Pictures that were not sent or not taken.")
MQTT_COMMANDS_DROPPED = _counter("mqtt_commands_dropped", "Commands beyond those that may wait.")
CERTIFICATE_EXPIRY = _gauge(
    "certificate_expiry_timestamp_seconds", "When the certificate of device, ca or broker expires.", "whose"
)

# -- evidence
EVIDENCE_STORED = _counter("evidence_results_stored", "Results whose pictures are on disk.")
EVIDENCE_DROPPED = _counter("evidence_results_dropped", "Results without the pictures that they should have.")
EVIDENCE_BYTES = _gauge("evidence_bytes", "Pictures on disk, as far as counted.")
EVIDENCE_STORING = _gauge("evidence_storing", "1 while pictures are stored, 0 while they cannot be.")

# -- the device
TEMPERATURE = _gauge(
    "temperature_celsius", "Thermal zones and hardware monitors of the kernel.", "place", "sensor"
)
THROTTLES = _counter(
    "cpu_throttles",
    "Times that cores or packages were slowed down for heat since the machine started.",
    "scope",
)
ENERGY = _counter(
    "energy_joules",
    "What the processor used as it counts itself (RAPL), all programs together.",
    "zone",
    "name",
)
DISK_FREE = _gauge("state_disk_free_bytes", "Free where the state directory is.")
DISK_SIZE = _gauge("state_disk_size_bytes", "Size of the file system where the state directory is.")

ALL: tuple[Metric, ...] = tuple(one for one in list(globals().values()) if isinstance(one, Metric))
"""In the order of this file."""

PROCESS: tuple[Metric, ...] = (
    _gauge("process_virtual_memory_bytes", "Address space."),
    _gauge("process_resident_memory_bytes", "Memory in use."),
    _gauge("process_start_time_seconds", "When the process started."),
    Metric("edge_infer_process_cpu_seconds_total", "counter", "Processor time used."),
    _gauge("process_open_fds", "Open file descriptors."),
    _gauge("process_max_fds", "How many may be open."),
)
"""What prometheus_client tells of the process itself."""
