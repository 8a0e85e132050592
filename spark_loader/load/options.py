"""The options of a load, checked once."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from spark_loader.columns.spec import ValueColumns
from spark_loader.columns.types import TIMES
from spark_loader.lake.formats import TABLE_FORMATS
from spark_loader.reading.connect import FETCH_BYTES, ConnectOptions
from spark_loader.reading.generations import find_generation
from spark_loader.reading.options import ISOLATION_LEVELS, parse_isolation
from spark_loader.reading.positions import EARLIEST_BOUND, Bound, TopicPartition
from spark_loader.reading.reader import POLICIES
from spark_loader.sink.data_formats import DATA_FORMATS
from spark_loader.sink.event_time import EventTime
from spark_loader.sink.hours import FALLBACKS
from spark_loader.sink.rows import COMPRESSIONS
from zkbroker.config.generation import parse_generation
from zkbroker.config.security import NO_SECURITY, ClientSecurity
from zkbroker.errors import ConfigError

# A number; in Kafka 0.7 BROKER-NUMBER.
_PARTITION = re.compile(r"\d+(-\d+)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadOptions:
    """Source, destination and settings of a load.

    Attributes:
        output: directory, or URI of a Hadoop file system; the checkpoints lie in it too.
        topics: names; or give `whitelist` and/or `blacklist`.
        whitelist: regex over whole topic names to load.
        blacklist: regex over whole topic names to leave out.
        generation: `0.7` for a cluster of Kafka 0.7, found by `zookeeper`; empty for all others.
        isolation_level: `read_uncommitted`, or `read_committed` to leave out the records of aborted
            transactions, and to wait for open ones.
        zookeeper: `HOST:PORT[/chroot]`; or give `bootstrap`.
        bootstrap: `HOST:PORT,…` of some brokers.
        group: consumer group whose offsets are committed after a run; empty for none.
        starting: where the first run begins in each partition; later ones go on. A partition
            without a record since a starting time begins at its end.
        on_out_of_range: `fail`, `earliest`, `latest` or `nearest` when a position is no longer
            in the log.
        policies: the same for a topic (`name`) or partition (`name:3`) of its own.
        max_records: most records per run.
        max_bytes: about the most bytes of the log per run.
        max_seconds: about how long a load goes on; it then stops between two rounds, each of which
            counts on its own.
        split_bytes: partitions with more to load are split among mappers.
        group_bytes: partitions with less to load share a mapper.
        format: `parquet`, `json` or `raw`.
        table: format of the table, `delta` or `iceberg`; empty for that of the output directory,
            which is Delta in a new one.
        event_time: where the time of an event comes from.
        columns: columns that values are turned into, beside those of every load; None for none.
        fallback: for records without one: `quarantine`, `timestamp` or `load-time`.
        target_bytes: a file is closed at about this size.
        headers: whether record headers are loaded.
        keep_damaged: whether damaged entries of the log go into quarantine or fail the load.
        max_quarantined: records one mapper may quarantine; None for any number.
        compression: codec of Parquet pages: snappy, zstd, gzip or none.
        fetch_bytes: asked of a broker at once.
        adopt: if the checkpoints do not fit the data files, the files are adopted as a new
            beginning; see `spark_loader.lake.adopt`.
        security: how brokers are connected to. Files that it names have to be on every worker.
    """

    output: str
    topics: tuple[str, ...] = ()
    whitelist: str = ""
    blacklist: str = ""
    generation: str = ""
    isolation_level: str = ISOLATION_LEVELS[0]
    zookeeper: str = ""
    bootstrap: str = ""
    group: str = ""
    starting: Bound = EARLIEST_BOUND
    on_out_of_range: str = "fail"
    policies: Mapping[str, str] = field(default_factory=dict)
    max_records: int | None = None
    max_bytes: int | None = None
    max_seconds: float | None = None
    split_bytes: int = 1024 * 1024 * 1024
    group_bytes: int = 4 * 1024 * 1024
    format: str = "parquet"
    table: str = ""
    event_time: EventTime = field(default_factory=EventTime)
    columns: ValueColumns | None = None
    fallback: str = "quarantine"
    target_bytes: int = 128 * 1024 * 1024
    headers: bool = False
    keep_damaged: bool = False
    max_quarantined: int | None = 1000
    compression: str = COMPRESSIONS[0]
    fetch_bytes: int = FETCH_BYTES
    adopt: bool = False
    security: ClientSecurity = NO_SECURITY

    def __post_init__(self) -> None:
        object.__setattr__(self, "topics", tuple(self.topics))
        if not self.output:
            raise ConfigError("no output directory is named")
        if bool(self.topics) == bool(self.whitelist or self.blacklist):
            raise ConfigError("name topics (-t TOPIC), or give a whitelist and/or blacklist regex")
        find_generation(parse_generation(self.generation)).check(
            zookeeper=self.zookeeper,
            bootstrap=self.brokers,
            read_committed=self.read_committed,
        )
        for name in ("whitelist", "blacklist"):
            try:
                re.compile(getattr(self, name))
            except re.error as error:
                raise ConfigError(f"{name}={getattr(self, name)!r}: {error}") from None
        for name, choice, allowed in (
            ("on_out_of_range", self.on_out_of_range, POLICIES),
            ("format", self.format, tuple(DATA_FORMATS)),
            ("table", self.table, ("", *TABLE_FORMATS)),
            ("fallback", self.fallback, FALLBACKS),
            ("compression", self.compression, COMPRESSIONS),
            *(
                (f"on_out_of_range of {name}", each, POLICIES)
                for name, each in self.policies.items()
            ),
        ):
            if choice not in allowed:
                raise ConfigError(
                    f"{name}: {choice!r} is not allowed: give one of {', '.join(allowed)}"
                )
        for place in self.policies:
            self._check_place(place)
        if "/" in self.group:
            raise ConfigError(f"group {self.group!r} becomes a name in ZooKeeper: leave '/' out")
        self._check_columns()
        for name in ("max_records", "max_bytes", "max_seconds", "split_bytes", "target_bytes"):
            number = getattr(self, name)
            if number is not None and number <= 0:
                raise ConfigError(f"{name}={number} is not allowed: give a number above 0")

    def _check_place(self, place: str) -> None:
        """Check that a policy is for a topic or partition that is loaded."""
        topic, _, partition = place.partition(":")
        if partition and not _PARTITION.fullmatch(partition):
            raise ConfigError(
                f"on_out_of_range of {place}: {partition!r} is no partition; give TOPIC=POLICY or "
                "TOPIC:PARTITION=POLICY, such as visits:3=earliest"
            )
        if not (topic in self.topics if self.topics else self.wants(topic)):
            raise ConfigError(
                f"on_out_of_range of {place}: topic {topic} is not among those to load"
            )

    def _check_columns(self) -> None:
        if self.columns is not None and not DATA_FORMATS[self.format].has_columns:
            raise ConfigError(
                f"format {self.format} keeps values as they are and has no columns: leave one out"
            )
        if self.event_time.source == "column":
            named = self.event_time.field
            known = {each.name: each.type for each in self.columns.columns} if self.columns else {}
            if known.get(named) != TIMES:
                raise ConfigError(
                    f"event time of column {named}: there is no such column of type timestamp; the "
                    f"columns are {', '.join(known) or 'none'}. Add {named}:timestamp to them, or "
                    "name another one"
                )

    @property
    def read_committed(self) -> bool:
        """Whether only committed records are loaded."""
        return parse_isolation(self.isolation_level)

    @property
    def brokers(self) -> tuple[str, ...]:
        """The addresses in `bootstrap`."""
        return tuple(each.strip() for each in self.bootstrap.split(",") if each.strip())

    def connect(self) -> ConnectOptions:
        """Return how the driver reaches the cluster."""
        return ConnectOptions(
            generation=parse_generation(self.generation),
            zookeeper=self.zookeeper or None,
            bootstrap=self.brokers,
            client_id="zkbroker-load",
            fetch_bytes=self.fetch_bytes,
            read_committed=self.read_committed,
            security=self.security,
        )

    def policy(self, source: TopicPartition) -> str:
        """Return what to do when an offset of this partition is out of the log's range."""
        for name in (f"{source.topic}:{source.partition}", source.topic):
            if name in self.policies:
                return self.policies[name]
        return self.on_out_of_range

    def wants(self, topic: str) -> bool:
        """Return whether a topic passes the whitelist and the blacklist."""
        if self.whitelist and not re.fullmatch(self.whitelist, topic):
            return False
        return not (self.blacklist and re.fullmatch(self.blacklist, topic))
