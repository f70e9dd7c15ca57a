"""What is published besides results and pictures: one file a message, and the table of topics."""
