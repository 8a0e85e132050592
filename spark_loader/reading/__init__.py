"""Offset ranges of a cluster: found, resolved, split, fetched and decoded into Arrow."""
