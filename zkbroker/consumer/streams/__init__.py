"""Streams of a member of a ZooKeeper group: ownership, offsets, iterators."""
