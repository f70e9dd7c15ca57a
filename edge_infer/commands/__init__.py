"""One file a command: the only files that print, read os.environ or exit."""
