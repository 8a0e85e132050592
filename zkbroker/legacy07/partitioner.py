"""Which partition of which broker a message goes to, as 0.7's own partitioner chooses."""

import random
from collections.abc import Sequence

from zkbroker.producer.partitioners import LegacyHashPartitioner


class Partitioner07(LegacyHashPartitioner):
    """By the Java hash code of the key; a random partition without one."""

    def choose(self, topic: str, available: Sequence[int]) -> int:
        return random.choice(available)  # noqa: S311 - spreads load, guards nothing
