"""Rules say what must hold for OK: pure functions of findings and frame time."""
