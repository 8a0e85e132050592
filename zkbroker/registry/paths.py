"""Every path of the ZooKeeper tree, relative to the chroot.

    /brokers/ids/[id]                              E  where a broker listens
    /brokers/seqid                                 P  its node version numbers generated broker ids
    /brokers/topics/[topic]                        P  replica assignment
    /brokers/topics/[topic]/partitions/[n]         P  leader, leader epoch, ISR
    /brokers/topics/[topic]/partitions/[n]/state   E  the leader's registration (P: see
                                                      `registry.partition_states`)
    /config/topics/[topic]                         P  settings of one topic
    /config/brokers/[id], /config/brokers/<default> P settings of one broker, of all brokers
    /config/users/[user], /config/clients/[client], /config/users/[user]/clients/[client]
                                                   P  quotas, and the SCRAM credentials of users
    /config/ips/[address]                          P  quotas of addresses
    /config/scram_secret                           P  what salts of unknown users are made of
    /config/changes/config_change_[seq]            P  notifications that settings changed
    /isr_change_notification/isr_change_[seq]      P  partitions whose in-sync replicas changed
    /log_dir_event_notification/log_dir_event_[seq] P a data directory of a broker failed
    /admin/delete_topics/[topic]                   P  deletion asked for
    /admin/reassign_partitions                     P  other replicas asked for
    /admin/preferred_replica_election              P  election of the preferred replicas asked for
    /controller, /controller_epoch                 E, P
    /legacy07/views/[topic]/[n]                    P  which broker shows it to clients of 0.7
    /kafka-acl/[Type]/[name]                       P  ACLs of a literal name
    /kafka-acl-extended/prefixed/[Type]/[name]     P  ACLs of a prefix
    /kafka-acl-changes/acl_changes_[seq]           P  notices that ACLs changed
    /kafka-acl-extended-changes/acl_changes_[seq]  P
    /cluster/id                                    P
    /latest_producer_id_block                      P
    /consumers/[group]/ids/[consumer]              E  membership and subscription
    /consumers/[group]/owners/[topic]/[n]          E  which thread owns the partition
    /consumers/[group]/offsets/[topic]/[n]         P  next offset to consume

E: ephemeral, P: persistent. Nothing else in the library spells a path.
"""

BROKER_IDS = "/brokers/ids"
BROKER_SEQID = "/brokers/seqid"
TOPICS = "/brokers/topics"
CONFIG = "/config"
TOPIC_CONFIGS = "/config/topics"
BROKER_CONFIGS = "/config/brokers"
CLIENT_CONFIGS = "/config/clients"
USER_CONFIGS = "/config/users"
SCRAM_SECRET = "/config/scram_secret"  # noqa: S105 - the name of a node
CONFIG_CHANGES = "/config/changes"
CONFIG_CHANGE_PREFIX = "/config/changes/config_change_"
ISR_CHANGES = "/isr_change_notification"
ISR_CHANGE_PREFIX = "/isr_change_notification/isr_change_"
LOG_DIR_EVENTS = "/log_dir_event_notification"
LOG_DIR_EVENT_PREFIX = "/log_dir_event_notification/log_dir_event_"
DELETE_TOPICS = "/admin/delete_topics"
REASSIGN_PARTITIONS = "/admin/reassign_partitions"
PREFERRED_REPLICA_ELECTION = "/admin/preferred_replica_election"
CONTROLLER = "/controller"
CONTROLLER_EPOCH = "/controller_epoch"
CLUSTER_ID = "/cluster/id"
LEGACY07_VIEWS = "/legacy07/views"
PRODUCER_ID_BLOCK = "/latest_producer_id_block"
CONSUMERS = "/consumers"
ACLS = "/kafka-acl"
ACLS_PREFIXED = "/kafka-acl-extended/prefixed"
ACL_CHANGES = "/kafka-acl-changes"
ACL_CHANGES_PREFIXED = "/kafka-acl-extended-changes"

PERSISTENT = (
    BROKER_IDS,
    BROKER_SEQID,
    TOPICS,
    TOPIC_CONFIGS,
    BROKER_CONFIGS,
    CLIENT_CONFIGS,
    USER_CONFIGS,
    CONFIG_CHANGES,
    DELETE_TOPICS,
    CONSUMERS,
    ISR_CHANGES,
    LOG_DIR_EVENTS,
)
"""What a broker makes sure of at its start, so that any tool finds the usual tree."""


def acl_change(parent: str) -> str:
    """What notices under one of the two parents begin with."""
    return f"{parent}/acl_changes_"


def broker(broker_id: int) -> str:
    return f"{BROKER_IDS}/{broker_id}"


def topic(name: str) -> str:
    return f"{TOPICS}/{name}"


def partitions(name: str) -> str:
    return f"{TOPICS}/{name}/partitions"


def partition(name: str, number: int) -> str:
    return f"{TOPICS}/{name}/partitions/{number}"


def partition_state(name: str, number: int) -> str:
    return f"{TOPICS}/{name}/partitions/{number}/state"


def broker_config(broker_id: int | None) -> str:
    """Where the settings of a broker are; of all brokers for None."""
    return f"{BROKER_CONFIGS}/{'<default>' if broker_id is None else broker_id}"


def topic_config(name: str) -> str:
    return f"{TOPIC_CONFIGS}/{name}"


def delete_topic(name: str) -> str:
    return f"{DELETE_TOPICS}/{name}"


def consumer_ids(group: str) -> str:
    return f"{CONSUMERS}/{group}/ids"


def consumer(group: str, consumer_id: str) -> str:
    return f"{CONSUMERS}/{group}/ids/{consumer_id}"


def owners(group: str, name: str) -> str:
    return f"{CONSUMERS}/{group}/owners/{name}"


def owner(group: str, name: str, number: int) -> str:
    return f"{CONSUMERS}/{group}/owners/{name}/{number}"


def offsets(group: str, name: str) -> str:
    return f"{CONSUMERS}/{group}/offsets/{name}"


def offset(group: str, name: str, number: int) -> str:
    return f"{CONSUMERS}/{group}/offsets/{name}/{number}"
