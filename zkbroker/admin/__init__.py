"""Operator tools as functions; the command line prints what they return.

Invariant: a tool reads and changes only what its name says, and what it prints in a genuine tool's
place has that tool's form.
"""
