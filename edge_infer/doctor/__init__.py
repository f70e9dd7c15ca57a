"""What works on this device and how to mend what does not. Changes nothing, needs no root.

A new check is a file here and a line in the table. It takes a Subject and gives findings, in its own thread:
one that hangs is told and left behind.
"""

from __future__ import annotations

CHECKS = {
    "cpu": "edge_infer.doctor.processor:check",
    "config": "edge_infer.doctor.configuration:check",
    "runtimes": "edge_infer.doctor.runtimes:check",
    "devices": "edge_infer.doctor.devices:check",
    "cameras": "edge_infer.doctor.cameras:check",
    "nodes": "edge_infer.doctor.nodes:check",
    "mqtt": "edge_infer.doctor.broker:check",
    "disk": "edge_infer.doctor.disk:check",
    "clock": "edge_infer.doctor.time_of_day:check",
    "unit": "edge_infer.doctor.unit:check",
    "reach": "edge_infer.doctor.reach:check",
    "heat": "edge_infer.doctor.heat:check",
    "memory": "edge_infer.doctor.memory:check",
    "network": "edge_infer.doctor.network:check",
    "limits": "edge_infer.doctor.limits:check",
}
"""In the order in which they are told."""
