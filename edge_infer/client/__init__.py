"""For subscribers: results in order, each once, and what is missing. Needs neither numpy nor a runtime."""
