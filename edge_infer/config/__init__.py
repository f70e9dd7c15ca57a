"""The site's YAML: loaded whole, every mistake told with file:line:column."""
