"""DescribeLogDirs: each data directory with the sizes of its partitions."""

from zkbroker.broker.context import RequestContext
from zkbroker.broker.services import BrokerServices
from zkbroker.errors import ErrorCode
from zkbroker.log import TopicPartition
from zkbroker.protocol.messages import DescribeLogDirsRequest, DescribeLogDirsResponse
from zkbroker.protocol.messages.log_dirs import LogDir, LogDirPartition, LogDirTopic


class DescribeLogDirsHandler:
    """Handles DescribeLogDirs; a failed directory has error 56."""

    def __init__(self, services: BrokerServices) -> None:
        self._logs = services.logs
        self._replicas = services.replicas

    def __call__(
        self, request: DescribeLogDirsRequest, context: RequestContext
    ) -> DescribeLogDirsResponse:
        wanted: set[TopicPartition] | None = None
        if request.topics is not None:
            wanted = {
                TopicPartition(topic.topic, number)
                for topic in context.paced(request.topics)
                for number in topic.partitions
            }
        offline = self._logs.offline_dirs()
        answers: list[LogDir] = []
        for path, logs in self._logs.by_directory().items():
            if path in offline:
                answers.append(LogDir(ErrorCode.KAFKA_STORAGE_ERROR, path))
                continue
            topics: dict[str, LogDirTopic] = {}
            for tp, log in context.paced(logs.items()):
                if wanted is not None and tp not in wanted:
                    continue
                topic = topics.setdefault(tp.topic, LogDirTopic(tp.topic))
                replica = self._replicas.get(tp.topic, tp.partition)
                mark = 0 if replica is None else replica.high_watermark
                lag = max(0, mark - log.log_end_offset)
                topic.partitions.append(
                    LogDirPartition(partition=tp.partition, size=log.size_bytes, offset_lag=lag)
                )
            answers.append(LogDir(ErrorCode.NONE, path, list(topics.values())))
        return DescribeLogDirsResponse(log_dirs=answers)
