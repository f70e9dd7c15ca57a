"""The running service's socket for the people at the device: ``edge-infer ctl``. No broker is needed."""
