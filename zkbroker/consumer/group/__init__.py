"""The consumer of a group with a coordinator: membership, assignment, offsets, `poll`."""
