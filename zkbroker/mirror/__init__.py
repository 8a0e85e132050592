"""Mirroring: any number of clusters into one, by a consumer and a producer.

Invariant: a mirror uses only what any client may use. A message is committed in its source only
    once the target has stored it.
"""

from zkbroker.mirror.config import MirrorConfig
from zkbroker.mirror.loop_guard import PATH_HEADER
from zkbroker.mirror.mirror import Mirror
from zkbroker.mirror.offset_syncs import read_syncs, translate
from zkbroker.mirror.source_cluster import group_offsets
from zkbroker.mirror.source_config import SourceConfig
from zkbroker.mirror.source_streams import CatchUp, TopicStatus
from zkbroker.mirror.tracker import Place

__all__ = [
    "CatchUp",
    "Mirror",
    "MirrorConfig",
    "PATH_HEADER",
    "Place",
    "SourceConfig",
    "TopicStatus",
    "group_offsets",
    "read_syncs",
    "translate",
]
