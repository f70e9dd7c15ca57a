"""Cameras that speak GenICam. Loaded only when one is opened."""
