"""The layouts of requests and responses as the protocol's documentation publishes them.

Written from the published schemas and not from the package, so that a mistake there is found even
though both ends of a round trip share it. A field is `name:type`, with `+3` if version 3 added it
and `-4` if version 4 was the last to have it; `?` allows null; `[…]` is an array of the fields
inside.
"""

import re
import struct

# ruff: noqa: ISC004 - the pairs below are two texts each, of several lines

LAYOUTS = {
    0: (
        "transactional_id:str?+3 acks:i16 timeout_ms:i32 "
        "topics[topic:str partitions[partition:i32 records:bytes?]]",
        "topics[topic:str partitions[partition:i32 error_code:i16 base_offset:i64 "
        "log_append_time_ms:i64+2 log_start_offset:i64+5]] throttle_time_ms:i32+1",
    ),
    1: (
        "replica_id:i32 max_wait_ms:i32 min_bytes:i32 max_bytes:i32+3 isolation_level:i8+4 "
        "session_id:i32+7 session_epoch:i32+7 topics[topic:str partitions[partition:i32 "
        "current_leader_epoch:i32+9 fetch_offset:i64 log_start_offset:i64+5 max_bytes:i32]] "
        "forgotten_topics+7[topic:str partitions[:i32]] rack_id:str+11",
        "throttle_time_ms:i32+1 error_code:i16+7 session_id:i32+7 topics[topic:str "
        "partitions[partition:i32 error_code:i16 high_watermark:i64 last_stable_offset:i64+4 "
        "log_start_offset:i64+5 aborted_transactions?+4[producer_id:i64 first_offset:i64] "
        "preferred_read_replica:i32+11 records:bytes?]]",
    ),
    2: (
        "replica_id:i32 isolation_level:i8+2 topics[topic:str partitions[partition:i32 "
        "current_leader_epoch:i32+4 timestamp:i64 max_num_offsets:i32-0]]",
        "throttle_time_ms:i32+2 topics[topic:str partitions[partition:i32 error_code:i16 "
        "offsets-0[:i64] timestamp:i64+1 offset:i64+1 leader_epoch:i32+4]]",
    ),
    3: (
        "topics?[:str] allow_auto_topic_creation:bool+4",
        "throttle_time_ms:i32+3 brokers[node_id:i32 host:str port:i32 rack:str?+1] "
        "cluster_id:str?+2 controller_id:i32+1 topics[error_code:i16 topic:str is_internal:bool+1 "
        "partitions[error_code:i16 partition:i32 leader:i32 leader_epoch:i32+7 replicas[:i32] "
        "isr[:i32] offline_replicas+5[:i32]]]",
    ),
    4: (
        "controller_id:i32 controller_epoch:i32 broker_epoch:i64+2 partition_states-1[topic:str "
        "partition:i32 controller_epoch:i32 leader:i32 leader_epoch:i32 isr[:i32] zk_version:i32 "
        "replicas[:i32] is_new:bool+1] topic_states+2[topic:str partition_states[partition:i32 "
        "controller_epoch:i32 leader:i32 leader_epoch:i32 isr[:i32] zk_version:i32 replicas[:i32] "
        "is_new:bool]] live_leaders[id:i32 host:str port:i32]",
        "error_code:i16 partitions[topic:str partition:i32 error_code:i16]",
    ),
    5: (
        "controller_id:i32 controller_epoch:i32 broker_epoch:i64+1 delete_partitions:bool "
        "partitions-0[topic:str partition:i32] topics+1[topic:str partitions[:i32]]",
        "error_code:i16 partitions[topic:str partition:i32 error_code:i16]",
    ),
    6: (
        "controller_id:i32 controller_epoch:i32 broker_epoch:i64+5 partition_states-4[topic:str "
        "partition:i32 controller_epoch:i32 leader:i32 leader_epoch:i32 isr[:i32] zk_version:i32 "
        "replicas[:i32] offline_replicas+4[:i32]] topic_states+5[topic:str "
        "partition_states[partition:i32 controller_epoch:i32 leader:i32 leader_epoch:i32 isr[:i32] "
        "zk_version:i32 replicas[:i32] offline_replicas[:i32]]] live_brokers[id:i32 host:str-0 "
        "port:i32-0 endpoints+1[port:i32 host:str listener:str+3 security_protocol:i16] "
        "rack:str?+2]",
        "error_code:i16",
    ),
    7: (
        "broker_id:i32 broker_epoch:i64+2",
        "error_code:i16 partitions_remaining[topic:str partition:i32]",
    ),
    8: (
        "group_id:str generation_id:i32+1 member_id:str+1 retention_time_ms:i64+2-4 "
        "topics[topic:str partitions[partition:i32 offset:i64 leader_epoch:i32+6 "
        "timestamp:i64+1-1 metadata:str?]]",
        "throttle_time_ms:i32+3 topics[topic:str partitions[partition:i32 error_code:i16]]",
    ),
    9: (
        "group_id:str topics?[topic:str partitions[:i32]]",
        "throttle_time_ms:i32+3 topics[topic:str partitions[partition:i32 offset:i64 "
        "leader_epoch:i32+5 metadata:str? error_code:i16]] error_code:i16+2",
    ),
    10: (
        "key:str key_type:i8+1",
        "throttle_time_ms:i32+1 error_code:i16 error_message:str?+1 node_id:i32 host:str port:i32",
    ),
    11: (
        "group_id:str session_timeout_ms:i32 rebalance_timeout_ms:i32+1 member_id:str "
        "protocol_type:str protocols[name:str metadata:bytes]",
        "throttle_time_ms:i32+2 error_code:i16 generation_id:i32 protocol_name:str leader:str "
        "member_id:str members[member_id:str metadata:bytes]",
    ),
    12: (
        "group_id:str generation_id:i32 member_id:str",
        "throttle_time_ms:i32+1 error_code:i16",
    ),
    13: ("group_id:str member_id:str", "throttle_time_ms:i32+1 error_code:i16"),
    14: (
        "group_id:str generation_id:i32 member_id:str assignments[member_id:str assignment:bytes]",
        "throttle_time_ms:i32+1 error_code:i16 assignment:bytes",
    ),
    15: (
        "groups[:str]",
        "throttle_time_ms:i32+1 groups[error_code:i16 group_id:str state:str protocol_type:str "
        "protocol_name:str members[member_id:str client_id:str client_host:str metadata:bytes "
        "assignment:bytes]]",
    ),
    16: ("", "throttle_time_ms:i32+1 error_code:i16 groups[group_id:str protocol_type:str]"),
    17: ("mechanism:str", "error_code:i16 mechanisms[:str]"),
    18: (
        "",
        "error_code:i16 versions[key:i16 min_version:i16 max_version:i16] throttle_time_ms:i32+1",
    ),
    19: (
        "topics[topic:str num_partitions:i32 replication_factor:i16 assignments[partition:i32 "
        "broker_ids[:i32]] configs[name:str value:str?]] timeout_ms:i32 validate_only:bool+1",
        "throttle_time_ms:i32+2 topics[topic:str error_code:i16 error_message:str?+1]",
    ),
    20: (
        "topics[:str] timeout_ms:i32",
        "throttle_time_ms:i32+1 topics[topic:str error_code:i16]",
    ),
    21: (
        "topics[topic:str partitions[partition:i32 offset:i64]] timeout_ms:i32",
        "throttle_time_ms:i32 topics[topic:str partitions[partition:i32 low_watermark:i64 "
        "error_code:i16]]",
    ),
    22: (
        "transactional_id:str? transaction_timeout_ms:i32",
        "throttle_time_ms:i32 error_code:i16 producer_id:i64 producer_epoch:i16",
    ),
    23: (
        "replica_id:i32+3 topics[topic:str partitions[partition:i32 current_leader_epoch:i32+2 "
        "leader_epoch:i32]]",
        "throttle_time_ms:i32+2 topics[topic:str partitions[error_code:i16 partition:i32 "
        "leader_epoch:i32+1 end_offset:i64]]",
    ),
    24: (
        "transactional_id:str producer_id:i64 producer_epoch:i16 topics[topic:str "
        "partitions[:i32]]",
        "throttle_time_ms:i32 topics[topic:str partitions[partition:i32 error_code:i16]]",
    ),
    25: (
        "transactional_id:str producer_id:i64 producer_epoch:i16 group_id:str",
        "throttle_time_ms:i32 error_code:i16",
    ),
    26: (
        "transactional_id:str producer_id:i64 producer_epoch:i16 committed:bool",
        "throttle_time_ms:i32 error_code:i16",
    ),
    27: (
        "markers[producer_id:i64 producer_epoch:i16 committed:bool topics[topic:str "
        "partitions[:i32]] coordinator_epoch:i32]",
        "markers[producer_id:i64 topics[topic:str partitions[partition:i32 error_code:i16]]]",
    ),
    28: (
        "transactional_id:str group_id:str producer_id:i64 producer_epoch:i16 topics[topic:str "
        "partitions[partition:i32 offset:i64 leader_epoch:i32+2 metadata:str?]]",
        "throttle_time_ms:i32 topics[topic:str partitions[partition:i32 error_code:i16]]",
    ),
    29: (
        "resource_type:i8 resource_name:str? pattern_type:i8+1 principal:str? host:str? "
        "operation:i8 permission_type:i8",
        "throttle_time_ms:i32 error_code:i16 error_message:str? resources[resource_type:i8 "
        "resource_name:str pattern_type:i8+1 acls[principal:str host:str operation:i8 "
        "permission_type:i8]]",
    ),
    30: (
        "creations[resource_type:i8 resource_name:str pattern_type:i8+1 principal:str host:str "
        "operation:i8 permission_type:i8]",
        "throttle_time_ms:i32 results[error_code:i16 error_message:str?]",
    ),
    31: (
        "filters[resource_type:i8 resource_name:str? pattern_type:i8+1 principal:str? host:str? "
        "operation:i8 permission_type:i8]",
        "throttle_time_ms:i32 results[error_code:i16 error_message:str? matching[error_code:i16 "
        "error_message:str? resource_type:i8 resource_name:str pattern_type:i8+1 principal:str "
        "host:str operation:i8 permission_type:i8]]",
    ),
    32: (
        "resources[resource_type:i8 resource_name:str config_names?[:str]] include_synonyms:bool+1",
        "throttle_time_ms:i32 resources[error_code:i16 error_message:str? resource_type:i8 "
        "resource_name:str entries[name:str value:str? read_only:bool is_default:bool-0 "
        "source:i8+1 is_sensitive:bool synonyms+1[name:str value:str? source:i8]]]",
    ),
    33: (
        "resources[resource_type:i8 resource_name:str configs[name:str value:str?]] "
        "validate_only:bool",
        "throttle_time_ms:i32 resources[error_code:i16 error_message:str? resource_type:i8 "
        "resource_name:str]",
    ),
    35: (
        "topics?[topic:str partitions[:i32]]",
        "throttle_time_ms:i32 log_dirs[error_code:i16 log_dir:str topics[topic:str "
        "partitions[partition:i32 size:i64 offset_lag:i64 is_future:bool]]]",
    ),
    36: (
        "auth_bytes:bytes",
        "error_code:i16 error_message:str? auth_bytes:bytes session_lifetime_ms:i64+1",
    ),
    37: (
        "topics[topic:str count:i32 assignments?[broker_ids[:i32]]] timeout_ms:i32 "
        "validate_only:bool",
        "throttle_time_ms:i32 topics[topic:str error_code:i16 error_message:str?]",
    ),
    42: ("groups[:str]", "throttle_time_ms:i32 groups[group_id:str error_code:i16]"),
    43: (
        "topics?[topic:str partitions[:i32]] timeout_ms:i32",
        "throttle_time_ms:i32 topics[topic:str partitions[partition:i32 error_code:i16 "
        "error_message:str?]]",
    ),
    # Our own, between brokers; published in docs/protocol.md alone.
    10001: (
        "transactions[transactional_id:str producer_id:i64 producer_epoch:i16 "
        "topics[topic:str partitions[:i32]]]",
        "throttle_time_ms:i32 results[transactional_id:str error_code:i16]",
    ),
}
"""API key → layout of the request's body and of the response's."""

_NUMBERS = {"i8": ">b", "i16": ">h", "i32": ">i", "i64": ">q"}
_FIELD = re.compile(r"(\])|(\w*)(?::(\w+))?(\?)?(?:\+(\d+))?(?:-(\d+))?(\[)?")


def read(layout: str, version: int, data: bytes) -> object:
    """Read a message by its layout into a dict of the version's fields.

    Raises:
        ValueError: bytes are missing, are left over, or are null where null is not allowed.
    """
    reader = _Reader(data, version)
    value = reader.fields(_parse(layout))
    if reader.at != len(data):
        raise ValueError(f"{len(data) - reader.at} bytes left over")
    return value


def _parse(layout: str) -> list:
    stack: list[list] = [[]]
    at = 0
    while at < len(layout):
        if layout[at] == " ":
            at += 1
            continue
        found = _FIELD.match(layout, at)
        assert found is not None, layout[at:]
        assert found.end() > at, layout[at:]
        at = found.end()
        if found[1]:
            stack.pop()
            continue
        items: list | None = [] if found[7] else None
        since, until = int(found[5] or 0), int(found[6] or 99)
        stack[-1].append((found[2], found[3], bool(found[4]), since, until, items))
        if items is not None:
            stack.append(items)
    assert len(stack) == 1, "brackets do not match"
    return stack[0]


class _Reader:
    def __init__(self, data: bytes, version: int) -> None:
        self.data, self.version, self.at = data, version, 0

    def fields(self, layout: list) -> object:
        found = {}
        for name, kind, nullable, since, until, items in layout:
            if since <= self.version <= until:
                found[name] = (
                    self.value(kind, nullable=nullable)
                    if items is None
                    else self.array(items, nullable=nullable)
                )
        # An array of plain values is one field without a name.
        return found.get("", found)

    def array(self, items: list, *, nullable: bool) -> list | None:
        count = self.number("i32")
        if count == -1 and nullable:
            return None
        if count < 0:
            raise ValueError(f"count {count}")
        return [self.fields(items) for _ in range(count)]

    def value(self, kind: str, *, nullable: bool) -> object:
        if kind in _NUMBERS:
            return self.number(kind)
        if kind == "bool":
            return bool(self.number("i8"))
        size = self.number("i16" if kind == "str" else "i32")
        if size == -1 and nullable:
            return None
        taken = self.take(size)
        return taken.decode() if kind == "str" else taken

    def number(self, kind: str) -> int:
        form = struct.Struct(_NUMBERS[kind])
        return form.unpack(self.take(form.size))[0]

    def take(self, size: int) -> bytes:
        if size < 0 or self.at + size > len(self.data):
            raise ValueError(f"{size} bytes wanted at {self.at} of {len(self.data)}")
        self.at += size
        return self.data[self.at - size : self.at]
