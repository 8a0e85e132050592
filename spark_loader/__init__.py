"""Loads topics into a lake with Spark, checkpointing offsets per mapper."""
