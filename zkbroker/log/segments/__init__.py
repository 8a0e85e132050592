"""The files of a log: segments with their indexes, their search and their replacement."""
