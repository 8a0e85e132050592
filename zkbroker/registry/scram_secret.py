"""What the salts of users that do not exist are made of: one secret of the cluster, in ZooKeeper.

    /config/scram_secret    {"version":1,"secret":"base64 of 32 random bytes"}

Made by the first broker that lets users log in by SCRAM. It is kept like their credentials: where
nodes have rights, only the brokers' login can read it.

Invariant: all brokers of a cluster answer alike, and what clients can know does not tell a user
that does not exist from one that does.
"""

import base64
import binascii
import json
import os

from zkbroker.errors import RegistryError
from zkbroker.registry import paths
from zkbroker.registry.node_json import read_json
from zkbroker.zookeeper import NodeExists, NoNode, ZkSession

SECRET_BYTES = 32


def scram_secret(session: ZkSession) -> bytes:
    """Return the cluster's secret; made when there is none.

    Raises:
        RegistryError: ZooKeeper does not answer, or the node holds something else.
    """
    while True:
        try:
            data, _ = session.get(paths.SCRAM_SECRET)
        except NoNode:
            fresh = os.urandom(SECRET_BYTES)
            text = base64.b64encode(fresh).decode()
            made = json.dumps({"version": 1, "secret": text}, separators=(",", ":")).encode()
            try:
                session.create(paths.SCRAM_SECRET, made, parents=True)
            except NodeExists:
                continue
            return fresh
        try:
            found = base64.b64decode(read_json(data)["secret"], validate=True)
        except (ValueError, TypeError, KeyError, binascii.Error):
            found = b""
        if len(found) < SECRET_BYTES:
            raise RegistryError(
                f"{paths.SCRAM_SECRET} holds no secret: delete the node, and a broker that starts "
                "makes another"
            )
        return found
