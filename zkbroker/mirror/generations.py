"""Which classes fit a source or a target, by its generation of Kafka.

Invariant: a mirror knows of generations here and nowhere else.
"""

from zkbroker.mirror.config import MirrorConfig
from zkbroker.mirror.legacy07 import SourceCluster07, Target07
from zkbroker.mirror.source_cluster import SourceCluster
from zkbroker.mirror.source_config import SourceConfig
from zkbroker.mirror.target import NewerTarget, Target
from zkbroker.runtime import Runtime


def open_source(config: SourceConfig, runtime: Runtime) -> SourceCluster:
    """Connect to the cluster of a source.

    Raises:
        ZkbrokerError: it cannot be reached.
    """
    return (SourceCluster07 if config.legacy07 else SourceCluster)(config, runtime)


def open_target(config: MirrorConfig, runtime: Runtime) -> Target:
    """Connect to the target.

    Raises:
        ConfigError: the settings ask for what it does not have.
        ZkbrokerError: it cannot be reached.
    """
    return (Target07 if config.target_legacy07 else NewerTarget)(config, runtime)
