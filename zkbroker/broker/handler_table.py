"""Which handler answers which API.

Invariant: ApiVersions tells clients exactly the APIs in this table, in the versions of
`protocol.api`.
"""

from collections.abc import Mapping

from zkbroker.broker.coordination import Coordination
from zkbroker.broker.dispatcher import Handler
from zkbroker.broker.handlers import sasl
from zkbroker.broker.handlers.configs import ConfigsHandlers
from zkbroker.broker.handlers.fetch import FetchHandler
from zkbroker.broker.handlers.list_offsets import ListOffsetsHandler
from zkbroker.broker.handlers.log_dirs import DescribeLogDirsHandler
from zkbroker.broker.handlers.metadata import ApiVersionsHandler, MetadataHandler
from zkbroker.broker.handlers.produce import ProduceHandler
from zkbroker.broker.handlers.replication import ReplicationHandlers
from zkbroker.broker.handlers.topics import TopicsHandlers
from zkbroker.broker.services import BrokerServices
from zkbroker.broker.transactions import TransactionCoordination
from zkbroker.protocol import ApiKey
from zkbroker.replica.throttle import ReplicationThrottle


def handler_table(
    services: BrokerServices,
    coordination: Coordination,
    transactions: TransactionCoordination,
    replication: ReplicationHandlers,
    leader_throttle: ReplicationThrottle,
    acls: Mapping[ApiKey, Handler],
) -> dict[ApiKey, Handler]:
    """Return the handler of each API; `acls` are those of the ACL APIs."""
    topics = TopicsHandlers(services)
    configs = ConfigsHandlers(services)
    verify = transactions.verifier.check
    handlers: dict[ApiKey, Handler] = {
        ApiKey.PRODUCE: ProduceHandler(services, verify),
        ApiKey.FETCH: FetchHandler(services, leader_throttle),
        ApiKey.LIST_OFFSETS: ListOffsetsHandler(services),
        ApiKey.METADATA: MetadataHandler(services),
        ApiKey.CREATE_TOPICS: topics.create_topics,
        ApiKey.DELETE_TOPICS: topics.delete_topics,
        ApiKey.CREATE_PARTITIONS: topics.create_partitions,
        ApiKey.DELETE_RECORDS: topics.delete_records,
        ApiKey.DESCRIBE_CONFIGS: configs.describe_configs,
        ApiKey.ALTER_CONFIGS: configs.alter_configs,
        ApiKey.SASL_HANDSHAKE: sasl.sasl_handshake,
        ApiKey.SASL_AUTHENTICATE: sasl.sasl_authenticate,
        ApiKey.DESCRIBE_LOG_DIRS: DescribeLogDirsHandler(services),
        **acls,
        **coordination.handlers(verify),
        **transactions.handlers(),
        **replication.all(),
    }
    handlers[ApiKey.API_VERSIONS] = ApiVersionsHandler(handlers.keys())
    return handlers
