"""What makes a frame an inspection. A new one is a file here and a line in the table."""
