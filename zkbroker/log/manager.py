"""All logs of a broker, over several data directories.

Invariant: a partition's log lives in exactly one data directory. A directory that fails goes
offline with its logs, which stay known and refuse every call; the others go on. A clean shutdown is
marked only when everything was closed without an error.
"""

import logging
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from zkbroker.config.log import LogConfig
from zkbroker.errors import ConfigError, StorageError
from zkbroker.log import names
from zkbroker.log.checkpoints import MetaProperties
from zkbroker.log.directory import DataDirectory, agree
from zkbroker.log.log import Log
from zkbroker.log.names import TopicPartition
from zkbroker.log.opening import OpenedLogs, TopicSettings
from zkbroker.log.recovery.loading import load
from zkbroker.log.recovery.scan import Cut
from zkbroker.log.retention import make_policy
from zkbroker.log.upkeep import LogUpkeep

logger = logging.getLogger(__name__)

_FIRST_RETENTION_MS = 30_000


class LogManager(OpenedLogs, LogUpkeep):
    """Opens, makes, deletes and looks after the logs of a broker."""

    def start(
        self, *, broker_id: int | None = None, topic_settings: TopicSettings | None = None
    ) -> list[Cut]:
        """Lock the directories, recover what has to be, and start the background tasks.

        Args:
            broker_id: as configured; checked against `meta.properties`.
            topic_settings: asked once, with the topics whose logs are to be recovered, for the
                topics' own settings; what it leaves out is not known. A log whose settings are not
                known is recovered as if it might be compacted, and nothing of it is deleted. None:
                no topic has settings but those told when the manager was made.

        Returns:
            What recovery cut off; each was logged.

        Raises:
            StorageError: a directory is in use, none can be used, or a partition is in two.
            ConfigError: the directories are another broker's.
        """
        make_policy(self._defaults, Path(self._config.log_dirs[0]))
        try:
            for root in dict.fromkeys(self._config.log_dirs):
                directory = DataDirectory(
                    Path(root),
                    self._runtime,
                    self.fs,
                    self._now_ms,
                    self._open_files,
                    self._went_offline,
                )
                self._directories.append(directory)
                directory.open()
            self._meta = agree(self._online(), broker_id)
            cuts = self._load_all(topic_settings)
            if not self._online():
                raise StorageError(self._all_offline())
        except BaseException:
            self.abandon()
            raise
        for directory in self._online():
            directory.begin()
        now = self._now_ms()
        self._checkpoint_due_ms = now + self._config.recovery_checkpoint_ms
        self._retention_due_ms = now + min(self._config.retention_check_ms, _FIRST_RETENTION_MS)
        self._schedule.add(self._flush_in_time, name="log-flush")
        self._schedule.add(self._maintain, name="log-upkeep")
        if self._config.cleaner_enable:
            self.cleaner.start()
        return cuts

    # Identity

    @property
    def stored_broker_id(self) -> int | None:
        """Broker id in `meta.properties`, None in new directories."""
        return self._meta.broker_id

    @property
    def stored_cluster_id(self) -> str | None:
        """Cluster id in `meta.properties`, None in new directories."""
        return self._meta.cluster_id

    @property
    def new_directories(self) -> list[str]:
        """The data directories that were nobody's at the start, or lost what was in them."""
        return [str(each.root) for each in self._online() if each.meta.broker_id is None]

    def write_meta(
        self, broker_id: int, cluster_id: str | None, *, new_directories: bool = True
    ) -> None:
        """Note whose directories these are, in every directory.

        Args:
            broker_id: the broker.
            cluster_id: its cluster.
            new_directories: also in those that have no such note yet.

        Raises:
            ConfigError: they are somebody else's.
            StorageError: none of them can be written.
        """
        agree(self._online(), broker_id)
        stored = self._meta.cluster_id
        if cluster_id is not None and stored is not None and stored != cluster_id:
            raise ConfigError(
                f"these log.dirs belong to cluster {stored}, and ZooKeeper to {cluster_id}: check "
                "zookeeper.connect, or give other log.dirs"
            )
        self._meta = MetaProperties(broker_id, cluster_id or stored)
        for directory in self._directories:
            if new_directories or directory.meta.broker_id is not None:
                directory.write_meta(self._meta)
        if not self._online():
            raise StorageError(self._all_offline())

    # Logs

    def get_or_create(
        self,
        tp: TopicPartition,
        overrides: Mapping[str, str] | None = None,
        *,
        is_new: bool = False,
    ) -> Log:
        """Return a partition's log, made in the directory with the fewest where there is none.

        Args:
            tp: the partition.
            overrides: the topic's own settings from now on; None leaves them.
            is_new: the partition never had a log. Without this none is made while a directory
                could not be read at the start: its log may be there.

        Raises:
            StorageError: no directory can be used, or it is not known whether there is a log.
            ConfigError: the overrides are not allowed.
            ValueError: no directory can have that name; the disks are not touched.
        """
        TopicPartition.parse(str(tp))
        if overrides is not None:
            self._configured.add(tp.topic)
            if dict(overrides) != self._overrides.get(tp.topic, {}):
                self.update_topic_config(tp.topic, overrides)
        with self._lock:
            log = self.get(tp)
            if log is not None:
                return log
            self._configured.add(tp.topic)
            if not is_new:
                self._require_all_read(tp)
            config = self.topic_config(tp.topic)
            found = self._unopened.get(tp)
            if found is not None and found[0].offline is None:
                log = self._logs[tp] = Log(tp, found[1], config, found[0], found[2])
                del self._unopened[tp]
                return log
            while online := self._online():
                held = Counter(id(log.directory) for log in self._logs.values())
                directory = min(online, key=lambda each: held[id(each)])
                try:
                    return self._create(tp, config, directory)
                except StorageError:
                    if directory.offline is None:
                        raise
            raise StorageError(f"{tp} cannot be stored: {self._all_offline()}")

    def _require_all_read(self, tp: TopicPartition) -> None:
        unread = [str(each.root) for each in self._directories if not each.loaded]
        if unread:
            raise StorageError(f"{tp} may be in {unread}, which could not be read")

    def _create(self, tp: TopicPartition, config: LogConfig, directory: DataDirectory) -> Log:
        path = directory.root / str(tp)
        directory.forget(tp)
        with directory.storage():
            state, _ = load(self._plan(directory, tp, path, clean=False))
            log = Log(tp, path, config, directory, state)
            self._runtime.offload(self.fs.fsync_dir, path)
            self._runtime.offload(self.fs.fsync_dir, directory.root)
        self._logs[tp] = log
        logger.info("log created partition=%s directory=%s", tp, path)
        return log

    def delete(self, tp: TopicPartition) -> None:
        """Remove a partition: its directory is renamed at once, its files go after a delay.

        Readers that hold a slice keep it. Without effect when there is no such log.

        Raises:
            StorageError: the disk failed, or it is not known whether there is a log.
        """
        with self._lock:
            log = self._logs.pop(tp, None)
            unopened = self._unopened.pop(tp, None)
            if log is not None:
                directory, path, config = log.directory, log.path, log.config
            elif unopened is not None:
                directory, path, config = *unopened[:2], self.topic_config(tp.topic)
            else:
                self._require_all_read(tp)
                return
            doomed = directory.root / names.delete_directory_name(tp)
            try:
                self.fs.rename(path, doomed)
                if log is not None:
                    log.mark_deleted()
                self._runtime.offload(self.fs.fsync_dir, directory.root)
            except OSError as error:
                if log is not None:
                    log.mark_deleted()
                raise directory.fail(error) from error
            directory.discard(doomed, self._now_ms() + config.file_delete_delay_ms)
        logger.info("log deleted partition=%s directory=%s", tp, doomed)

    def update_topic_config(self, topic: str, overrides: Mapping[str, str]) -> None:
        """Give a topic other settings of its own, for its logs now and later.

        Raises:
            ConfigError: they are not allowed; nothing changed.
        """
        base = self._config.topic_overrides(topic)
        config = self._defaults.with_topic_overrides(base | dict(overrides))
        make_policy(config, Path(self._config.log_dirs[0]))
        self._overrides[topic] = dict(overrides)
        self._configured.add(topic)
        for tp, log in self.logs().items():
            if tp.topic == topic:
                log.update_config(config)

    def update_defaults(self, defaults: LogConfig) -> None:
        """Take other settings for topics without their own, for logs now and later."""
        if defaults == self._defaults:
            return
        self._defaults = defaults
        for tp, log in self.logs().items():
            log.update_config(self.topic_config(tp.topic))

    # End

    def close(self, timeout_s: float = 30.0) -> None:
        """Stop the tasks, close every log, mark the clean shutdown and unlock.

        Raises:
            StorageError: a log could not be closed; its directory is not marked clean.
        """
        self._schedule.stop(timeout_s)
        self.cleaner.stop(timeout_s)
        failure: StorageError | None = None
        failed: set[int] = set()
        for log in self.logs().values():
            try:
                log.close()
            except StorageError as error:
                failed.add(id(log.directory))
                failure = failure or error
        for directory in self._online():
            self._checkpoint(directory)
            if id(directory) not in failed:
                directory.mark_clean()
        self.abandon()
        if failure is not None:
            raise failure

    def abandon(self) -> None:
        """Stop the tasks and unlock, and leave every file as it is: as a killed process would."""
        self._schedule.stop(10.0)
        self.cleaner.stop(10.0)
        for log in self.logs().values():
            log.release_files()
        for directory in self._directories:
            directory.close()
