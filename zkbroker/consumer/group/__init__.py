"""The consumer of a group that a coordinator keeps: membership, assignment, offsets, `poll`."""
