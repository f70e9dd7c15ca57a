"""Whether a camera's picture can be judged at all. One check a file; each is a few numbers against limits.

A check learns its limit from what is commissioned, or has a conservative one of its own, or cannot be told.
"""

from edge_infer.imagehealth.settings import HealthSettings

__all__ = ["HealthSettings"]
