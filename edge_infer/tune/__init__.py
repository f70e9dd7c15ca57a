"""Finds the fastest setting for a model on this device that keeps its accuracy."""
