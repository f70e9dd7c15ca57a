"""The pipeline beside the bare runtime's limit, measured in turns."""
