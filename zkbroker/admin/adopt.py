"""Adopts data directories of genuine Kafka: assigns their partitions in ZooKeeper.

A broker serves the partitions that ZooKeeper assigns to it. A directory from another cluster has
partitions that this ZooKeeper lacks; its adoption writes their topics.

Invariant: nothing in the data directories is changed, and no existing assignment is changed: a
    partition of another broker stays there, and is reported.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from zkbroker.admin.log_check import stored_partition
from zkbroker.config.legacy07 import how_to_serve
from zkbroker.errors import ConfigError, StorageError
from zkbroker.log.checkpoints import read_meta
from zkbroker.log.legacy07.log import is_log_folder
from zkbroker.log.names import META_PROPERTIES
from zkbroker.log.producers.loading import highest_producer_id
from zkbroker.registry import topics
from zkbroker.registry.cluster_id import claim_cluster_id
from zkbroker.registry.producer_ids import raise_above
from zkbroker.zookeeper import ZkSession


@dataclass(frozen=True, slots=True)
class DirectorySurvey:
    """The contents of data directories.

    Args:
        broker_id: the broker they belonged to; None if not recorded.
        cluster_id: the cluster they belonged to; None if not recorded (before 0.10.1).
        partitions: topic → partition numbers in order.
        highest_producer_id: of the idempotent producers that the logs know; -1 for none.
    """

    broker_id: int | None
    cluster_id: str | None
    partitions: dict[str, list[int]]
    highest_producer_id: int = -1


@dataclass(slots=True)
class Adoption:
    """The result of an adoption.

    Args:
        broker_id: the broker that the partitions are assigned to.
        adopted: assigned to it by this adoption.
        already: assigned to it before.
        elsewhere: partition → the other broker that it is assigned to; the data here is not served.
        missing: partitions of adopted topics that are in no directory seen so far.
    """

    broker_id: int
    adopted: list[tuple[str, int]] = field(default_factory=list)
    already: list[tuple[str, int]] = field(default_factory=list)
    elsewhere: dict[tuple[str, int], int] = field(default_factory=dict)
    missing: list[tuple[str, int]] = field(default_factory=list)


def survey(directories: Sequence[Path]) -> DirectorySurvey:
    """Read data directories, without changing them.

    Raises:
        StorageError: one is not a data directory, or they are of different brokers or clusters.
    """
    partitions: dict[str, set[int]] = {}
    brokers: dict[int, Path] = {}
    clusters: dict[str, Path] = {}
    highest = -1
    for directory in directories:
        if not directory.is_dir():
            raise StorageError(f"{directory} is not a directory")
        meta = read_meta(directory)
        if meta.broker_id is not None:
            brokers.setdefault(meta.broker_id, directory)
        if meta.cluster_id is not None:
            clusters.setdefault(meta.cluster_id, directory)
        try:
            children = sorted(child for child in directory.iterdir() if child.is_dir())
            old = next(filter(is_log_folder, children), None)
            here = [each for each in map(stored_partition, children) if each is not None]
        except OSError as error:
            raise StorageError(f"cannot read {directory}: {error.strerror}") from error
        if old is not None:
            raise StorageError(
                f"{old} is a log of Kafka 0.7, which needs no adopting; {how_to_serve(directory)}"
            )
        if not here and not (directory / META_PROPERTIES).exists():
            raise StorageError(
                f"{directory} is not a data directory: give one with directories like visits-0, "
                "each with its *.log files (log.dirs of the broker it comes from)"
            )
        for found in here:
            highest = max(highest, _highest_producer_id(directory / str(found)))
            partitions.setdefault(found.topic, set()).add(found.partition)
    for kind, seen in (("brokers", brokers), ("clusters", clusters)):
        if len(seen) > 1:
            named = ", ".join(f"{value} in {path}" for value, path in seen.items())
            raise StorageError(
                f"these directories are of different {kind} ({META_PROPERTIES}: "
                f"{named}); adopt those of one broker at a time"
            )
    return DirectorySurvey(
        next(iter(brokers), None),
        next(iter(clusters), None),
        {topic: sorted(numbers) for topic, numbers in sorted(partitions.items())},
        highest,
    )


def _highest_producer_id(directory: Path) -> int:
    try:
        return highest_producer_id(directory)
    except OSError as error:
        raise StorageError(f"cannot read {directory}: {error.strerror}") from error


def adopt(session: ZkSession, found: DirectorySurvey, *, broker_id: int | None = None) -> Adoption:
    """Assign surveyed partitions to the broker that will serve them.

    Args:
        session: a started session.
        found: the contents of the directories.
        broker_id: the broker; the one the directories belonged to by default.

    Raises:
        ConfigError: no broker is known, or it differs from the directories' own.
        RegistryError: this ZooKeeper belongs to another cluster.
    """
    chosen = broker_id if broker_id is not None else found.broker_id
    if chosen is None:
        raise ConfigError(
            "the directories do not record which broker they belonged to: give its id"
        )
    if found.broker_id is not None and chosen != found.broker_id:
        raise ConfigError(
            f"the directories belong to broker {found.broker_id}, not {chosen}; a broker refuses "
            f"another one's data, so adopt them as {found.broker_id}"
        )
    if found.cluster_id is not None:
        claim_cluster_id(session, found.cluster_id)
    raise_above(session, chosen, found.highest_producer_id)
    done = Adoption(chosen)
    existing = topics.assignments(session, list(found.partitions))
    for topic, numbers in found.partitions.items():
        current = existing.get(topic, {})
        fresh: dict[int, list[int]] = {}
        for number in numbers:
            replicas = current.get(number)
            if replicas is None:
                fresh[number] = [chosen]
                done.adopted.append((topic, number))
            elif replicas and replicas[0] == chosen:
                done.already.append((topic, number))
            else:
                done.elsewhere[topic, number] = replicas[0] if replicas else -1
        if fresh and topic in existing:
            topics.add_partitions(session, topic, fresh)
        elif fresh:
            topics.create_topic(session, topic, fresh)
        known = {*current, *fresh}
        done.missing += [(topic, n) for n in range(max(known, default=-1) + 1) if n not in known]
    return done
