"""Partitions as objects: who leads, who is in sync, how far readers see, and who waits for that."""
