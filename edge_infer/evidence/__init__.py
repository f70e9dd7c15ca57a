"""Stored pictures of inspections: chosen, encoded, written within a budget. Never waited for."""
