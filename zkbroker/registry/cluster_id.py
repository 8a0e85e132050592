"""The cluster's id: `/cluster/id` holds `{"version":"1","id":"…"}`.

Invariant: the id is created once, by the first broker, and never changed. It has 22 characters of
[a-zA-Z0-9_-], the URL-safe Base64 form of 16 random bytes.
"""

import base64
import uuid

from zkbroker.errors import RegistryError
from zkbroker.registry import paths
from zkbroker.registry.node_json import read_json, write_json
from zkbroker.registry.optional_nodes import read_node
from zkbroker.zookeeper.errors import NodeExists
from zkbroker.zookeeper.session import ZkSession


def read_cluster_id(session: ZkSession) -> str | None:
    """Return the cluster's id, None if it has none yet."""
    found = read_node(session, paths.CLUSTER_ID)
    if found is None:
        return None
    data, _ = found
    try:
        return str(read_json(data)["id"])
    except (ValueError, TypeError, KeyError) as error:
        raise RegistryError(f"{paths.CLUSTER_ID} holds no cluster id: {data[:100]!r}") from error


def cluster_id(session: ZkSession) -> str:
    """Return the cluster's id; create it if there is none."""
    while True:
        found = read_cluster_id(session)
        if found is not None:
            return found
        fresh = base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
        if _create(session, fresh):
            return fresh


def claim_cluster_id(session: ZkSession, given: str) -> None:
    """Give a cluster without an id the one that is stored in its data directories.

    Raises:
        RegistryError: the cluster has another id.
    """
    if _create(session, given):
        return
    found = read_cluster_id(session)
    if found != given:
        raise RegistryError(
            f"this ZooKeeper holds cluster {found}, the data is of cluster {given}: use a chroot "
            "of its own for it, as in zookeeper.connect=host:2181/adopted"
        )


def _create(session: ZkSession, cluster: str) -> bool:
    data = write_json({"version": "1", "id": cluster})
    try:
        session.create(paths.CLUSTER_ID, data, parents=True)
    except NodeExists:
        return False
    return True
