"""Compaction: a log keeps the latest record of each key.

    selection -> mapping (key -> last offset) -> grouping -> copying -> swap -> checkpoint

Invariant: offsets and their order never change, the latest record of each key stays, and no part of
a log is missing at any moment: compacted segments are written beside the log and replace the old
ones by renaming.
"""

from zkbroker.log.cleaner.cleaner import LogCleaner
from zkbroker.log.cleaner.cleaning import CleaningAborted, CleanStats, clean, dry_run
from zkbroker.log.cleaner.offset_map import OffsetMap
from zkbroker.log.cleaner.selection import Cleanable, cleanable_part

__all__ = [
    "CleanStats",
    "Cleanable",
    "CleaningAborted",
    "LogCleaner",
    "OffsetMap",
    "clean",
    "cleanable_part",
    "dry_run",
]
