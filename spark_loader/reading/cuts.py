"""Where ranges may begin and end: anywhere, or in a 0.7 log only between entries.

Invariant: contiguous ranges stay contiguous; a moved cut loses nothing and repeats nothing.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from spark_loader.reading.positions import TopicPartition
from spark_loader.reading.resolve import SourceCluster
from spark_loader.reading.splits import OffsetRange


def at_cuts(
    view: SourceCluster, begin: Mapping[TopicPartition, int], until: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """Return the nearest allowed ends of ranges for ends that were chosen freely."""
    return {
        tp: view.last_cut(tp, begin[tp], end) if tp in begin and end > begin[tp] else end
        for tp, end in until.items()
    }


def split_at_cuts(view: SourceCluster, pieces: Iterable[OffsetRange]) -> list[OffsetRange]:
    """Return pieces cut only where partitions may be; fewer if such places are few.

    Args:
        view: the cluster.
        pieces: contiguous pieces of whole ranges, in order within each partition.
    """
    known: dict[TopicPartition, list[int] | None] = {}
    moved: list[OffsetRange] = []
    for each in pieces:
        before = moved[-1] if moved and moved[-1].source == each.source else None
        if before is None or before.until != each.start:
            moved.append(each)
            continue
        if each.source not in known:
            known[each.source] = view.cuts(each.source)
        cuts = known[each.source]
        if cuts is None or each.start in cuts:
            moved.append(each)
            continue
        cut = max((at for at in cuts if before.start < at <= each.start), default=None)
        if cut is None:
            # No place to cut between the two: they become one piece.
            size = before.estimated_bytes + each.estimated_bytes
            moved[-1] = replace(before, until=each.until, estimated_bytes=size)
            continue
        moved[-1] = replace(before, until=cut)
        moved.append(replace(each, start=cut))
    return moved
