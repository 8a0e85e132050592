"""The release of Kafka that introduced each version of an API: the age of a client's requests.

Source: the protocol documents of Kafka 0.8 to 2.4. A client's age is that of its oldest data
    request (`DATA`): new clients use old versions of other requests for years.
"""

from collections.abc import Iterable

from zkbroker.protocol import ApiKey

SINCE: dict[ApiKey, tuple[str, ...]] = {
    ApiKey.PRODUCE: ("0.8", "0.9", "0.10.0", "0.11", "1.0", "1.0", "2.0", "2.1", "2.4"),
    ApiKey.FETCH: (
        "0.8", "0.9", "0.10.0", "0.10.1", "0.11", "0.11", "1.0", "1.1", "2.0", "2.1", "2.1", "2.3",
    ),
    ApiKey.LIST_OFFSETS: ("0.8", "0.10.1", "0.11", "2.0", "2.1", "2.2"),
    ApiKey.METADATA: (
        "0.8", "0.10.0", "0.10.1", "0.11", "0.11", "1.0", "2.0", "2.1", "2.3",
    ),
    ApiKey.OFFSET_COMMIT: ("0.8", "0.8.2", "0.9", "0.11", "2.0", "2.1", "2.1", "2.3"),
    ApiKey.OFFSET_FETCH: ("0.8", "0.8.2", "0.10.2", "0.11", "2.0", "2.1", "2.4"),
    ApiKey.FIND_COORDINATOR: ("0.8.2", "0.11", "2.0"),
    ApiKey.JOIN_GROUP: ("0.9", "0.10.1", "0.11", "2.0", "2.2", "2.3"),
    ApiKey.HEARTBEAT: ("0.9", "0.11", "2.0", "2.3"),
    ApiKey.LEAVE_GROUP: ("0.9", "0.11", "2.0", "2.4"),
    ApiKey.SYNC_GROUP: ("0.9", "0.11", "2.0", "2.3"),
    ApiKey.DESCRIBE_GROUPS: ("0.9", "0.11", "2.0", "2.3"),
    ApiKey.LIST_GROUPS: ("0.9", "0.11", "2.0"),
    ApiKey.SASL_HANDSHAKE: ("0.10.0", "1.0"),
    ApiKey.API_VERSIONS: ("0.10.0", "0.11", "2.0", "2.4"),
    ApiKey.CREATE_TOPICS: ("0.10.1", "0.10.2", "0.11", "2.0"),
    ApiKey.DELETE_TOPICS: ("0.10.1", "0.11", "2.0", "2.1"),
    ApiKey.DELETE_RECORDS: ("0.11", "2.0"),
    ApiKey.INIT_PRODUCER_ID: ("0.11", "2.0"),
    ApiKey.ADD_PARTITIONS_TO_TXN: ("0.11", "2.0"),
    ApiKey.ADD_OFFSETS_TO_TXN: ("0.11", "2.0"),
    ApiKey.END_TXN: ("0.11", "2.0"),
    ApiKey.TXN_OFFSET_COMMIT: ("0.11", "2.0", "2.1"),
    ApiKey.DESCRIBE_ACLS: ("0.11", "2.0"),
    ApiKey.CREATE_ACLS: ("0.11", "2.0"),
    ApiKey.DELETE_ACLS: ("0.11", "2.0"),
    ApiKey.DESCRIBE_CONFIGS: ("0.11", "1.1", "2.0"),
    ApiKey.ALTER_CONFIGS: ("0.11", "2.0"),
    ApiKey.DESCRIBE_LOG_DIRS: ("1.0", "2.0"),
    ApiKey.SASL_AUTHENTICATE: ("1.0", "2.2"),
    ApiKey.CREATE_PARTITIONS: ("1.0", "2.0"),
    ApiKey.DELETE_GROUPS: ("1.1", "2.0"),
    ApiKey.ELECT_PREFERRED_LEADERS: ("2.2",),
}  # fmt: skip
DATA = (ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.LIST_OFFSETS, ApiKey.METADATA)


def since(api_key: int, version: int) -> str | None:
    """Return the release that introduced a version; None if it is not in the table."""
    try:
        known = SINCE.get(ApiKey(api_key))
    except ValueError:
        return None
    if known is None or version < 0:
        return None
    return known[version] if version < len(known) else known[-1]


def oldest(requests: Iterable[tuple[int, int]]) -> str | None:
    """Return the oldest release that serves all requests: API keys and versions."""
    known = [(key, found) for key, version in requests if (found := since(key, version))]
    of_data = [found for key, found in known if key in DATA]
    releases = of_data or [found for _, found in known]
    return min(releases, key=order, default=None)


def order(release: str) -> tuple[int, ...]:
    """Return a key that sorts releases by age."""
    return tuple(int(part) for part in release.split("."))
