"""The durable queue between the stations and the broker.

Stations `put`; one writer thread numbers, commits and gives up; the MQTT pump takes rows and says what
became of them.
"""

from edge_infer.outbox.ledger import Counts, OpenTrigger, Tally
from edge_infer.outbox.outbox import Outbox, OutboxStats
from edge_infer.outbox.row import Row
from edge_infer.outbox.settings import OutboxSettings
from edge_infer.outbox.shifts import Shifts

__all__ = ["Counts", "OpenTrigger", "Outbox", "OutboxSettings", "OutboxStats", "Row", "Shifts", "Tally"]
