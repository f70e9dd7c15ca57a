"""Stored pictures of what was judged; `evidence.Evidence` is the way in."""
