"""Inference runtime for vision models on factory inspection devices."""

__version__ = "0.1.0"
