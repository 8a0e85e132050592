"""The coordinator of a broker: groups and their committed offsets; no sockets."""
