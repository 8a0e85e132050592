"""The interface of another generation of Kafka as source and target of a mirror.

Invariant: no other code of a mirror depends on the generation.
"""

from typing import Protocol

from zkbroker.config.generation import find_generation
from zkbroker.mirror.config import MirrorConfig
from zkbroker.mirror.source_cluster import MirrorSource
from zkbroker.mirror.source_config import GenerationSettings, SourceConfig
from zkbroker.mirror.target import MirrorTarget, NewerTarget
from zkbroker.runtime import Runtime


class MirrorGeneration(GenerationSettings, Protocol):
    """A generation other than 0.8 and later; `config.generation` finds it."""

    def open_source(self, config: SourceConfig, runtime: Runtime) -> MirrorSource:
        """Connect to a source.

        Raises:
            ZkbrokerError: it cannot be reached.
        """

    def open_target(self, config: MirrorConfig, runtime: Runtime) -> MirrorTarget:
        """Connect to the target.

        Raises:
            ZkbrokerError: it cannot be reached.
        """


def open_source(config: SourceConfig, runtime: Runtime) -> MirrorSource:
    """Connect to the cluster of a source.

    Raises:
        ZkbrokerError: it cannot be reached.
    """
    generation: MirrorGeneration | None = find_generation(config.properties)
    return (
        MirrorSource(config, runtime)
        if generation is None
        else generation.open_source(config, runtime)
    )


def open_target(config: MirrorConfig, runtime: Runtime) -> MirrorTarget:
    """Connect to the target.

    Raises:
        ConfigError: the settings ask for features that it does not have.
        ZkbrokerError: it cannot be reached.
    """
    generation: MirrorGeneration | None = find_generation(config.target)
    return (
        NewerTarget(config, runtime)
        if generation is None
        else generation.open_target(config, runtime)
    )
