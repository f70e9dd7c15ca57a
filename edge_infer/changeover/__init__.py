"""What each station runs, and how that changes while it runs: recipes, thresholds, a new configuration."""

from edge_infer.changeover.changeover import Changeover
from edge_infer.changeover.configurations import Configurations
from edge_infer.changeover.floor import Floor

__all__ = ["Changeover", "Configurations", "Floor"]
