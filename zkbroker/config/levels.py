"""The levels of `inter.broker.protocol.version` that are served, and other ways to write them.

Brokers do not negotiate: the level of the sender fixes the version of every request between them
(`zkbroker.protocol.inter_broker`), so that all brokers of a cluster have one level.
"""

from collections.abc import Mapping

LEVELS = ("0.8.2", "2.1", "2.2", "2.3")

LEVEL_SPELLINGS: Mapping[str, str] = {
    **dict.fromkeys(("0.8.2.0", "0.8.2.1", "0.8.2.2", "0.8.2.x"), "0.8.2"),
    **dict.fromkeys(("2.1.0", "2.1.1", "2.1-iv0", "2.1-iv1", "2.1-iv2"), "2.1"),
    **dict.fromkeys(("2.2.0", "2.2.1", "2.2.2", "2.2-iv0", "2.2-iv1"), "2.2"),
    **dict.fromkeys(("2.3.0", "2.3.1", "2.3-iv0", "2.3-iv1"), "2.3"),
}
"""In lower case."""
