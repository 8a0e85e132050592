"""Chooses the broker and partition of a message like 0.7's own partitioner."""

import random
from collections.abc import Sequence

from zkbroker.producer.partitioners import LegacyHashPartitioner


class Partitioner07(LegacyHashPartitioner):
    """By the Java hash code of the key; a random partition without one."""

    def choose(self, topic: str, available: Sequence[int]) -> int:
        return random.choice(available)  # noqa: S311 - spreads load, guards nothing
