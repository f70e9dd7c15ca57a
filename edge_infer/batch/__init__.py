"""Every picture and every frame of many files, once, in order: a file of answers that a kill only delays."""

LINES, PARQUET = ".jsonl", ".parquet"
"""What an output's name ends in."""
