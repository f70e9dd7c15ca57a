"""Numbers for Prometheus: what there is, how it is counted, measured, written and served."""
