"""The model card and what the network file itself says."""
