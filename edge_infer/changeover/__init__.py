"""What each station runs, and how that changes while it runs: recipes, thresholds, a new configuration."""

from edge_infer.changeover.changeover import Changeover

__all__ = ["Changeover"]
