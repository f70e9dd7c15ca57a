"""For whoever reads what `edge-infer` publishes: MES scripts, gateways, dashboards.

Needs paho-mqtt and Python's own library; neither numpy nor a runtime.
"""

from edge_infer.client.broker import Broker, Tls
from edge_infer.client.decisions import Decision, Decisions
from edge_infer.client.messages import Event, Gap, Message, Result, Status, Unreadable
from edge_infer.client.numbers import Missing
from edge_infer.client.subscriber import Subscriber

__all__ = [
    "Broker",
    "Decision",
    "Decisions",
    "Event",
    "Gap",
    "Message",
    "Missing",
    "Result",
    "Status",
    "Subscriber",
    "Tls",
    "Unreadable",
]
