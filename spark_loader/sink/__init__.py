"""Rows into files by event hour; those without a time into quarantine."""
