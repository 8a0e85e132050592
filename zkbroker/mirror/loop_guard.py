"""Prevents loops of mirrors in both directions or in a ring, by the path of a message.

    header zkbroker.mirror.path     the clusters it was in, first to last: `east,west`
    topic names                     a prefix names the source of a topic: `east.orders`

Invariant: if clusters have names, no message is sent to a cluster that it was in; with prefixes, no
    mirror copies a topic twice.
"""

from collections.abc import Sequence

from zkbroker.records.record import Headers, Unsent

PATH_HEADER = "zkbroker.mirror.path"


class PathMarker:
    """Writes and reads the header.

    Args:
        source: name of the cluster that is mirrored.
        target: name of the cluster that is mirrored to.
    """

    def __init__(self, source: str, target: str) -> None:
        self._source = source.encode()
        self._target = target.encode()
        self._fresh = ((PATH_HEADER, self._source),)

    def marked(self, records: Sequence[Unsent]) -> list[Unsent]:
        """Return the records that were not in the target, with the source added to their paths."""
        fresh = self._fresh
        kept: list[Unsent] = []
        for key, value, timestamp, headers in records:
            if not headers:
                kept.append((key, value, timestamp, fresh))
                continue
            path = path_of(headers)
            if self._target in path:
                continue
            others = tuple(each for each in headers if each[0] != PATH_HEADER)
            if self._source not in path:
                path = [*path, self._source]
            kept.append((key, value, timestamp, (*others, (PATH_HEADER, b",".join(path)))))
        return kept


def path_of(headers: Headers) -> list[bytes]:
    """Return the names of the clusters that a message was in."""
    return [
        name
        for header, content in headers
        if header == PATH_HEADER and content
        for name in content.split(b",")
    ]


def would_loop(topic: str, prefix: str, target: str) -> bool:
    """Whether a topic of the source came from a mirror with prefixes, and would loop.

    Args:
        topic: its name in the source.
        prefix: of this mirror; empty for none.
        target: name of the target cluster; empty if it has none.
    """
    if not prefix:
        return False
    if target and topic.startswith(f"{target}."):
        return True
    return topic.startswith(prefix) or f".{prefix}" in topic
