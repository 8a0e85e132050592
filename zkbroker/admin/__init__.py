"""Operator tools as functions; the command line prints what they return.

Invariant: a tool reads and changes only what its name says; output in place of a genuine tool's has
    that tool's form.
"""
