"""The cluster's secret from which the salts of nonexistent users are derived.

    /config/scram_secret    {"version":1,"secret":"base64 of 32 random bytes"}

The first broker with SCRAM logins creates it. It is protected like the credentials of users: if
nodes have ZooKeeper ACLs, only the brokers' login can read it.

Invariant: all brokers of a cluster answer with the same salt for a user, so that clients cannot
tell a nonexistent user from an existing one.
"""

import base64
import binascii
import os

from zkbroker.errors import RegistryError
from zkbroker.registry import paths
from zkbroker.registry.node_json import read_json, write_json
from zkbroker.zookeeper import NodeExists, NoNode, ZkSession

SECRET_BYTES = 32


def scram_secret(session: ZkSession) -> bytes:
    """Return the cluster's secret; create it if there is none.

    Raises:
        RegistryError: ZooKeeper does not answer, or the node holds no secret.
    """
    while True:
        try:
            data, _ = session.get(paths.SCRAM_SECRET)
        except NoNode:
            fresh = os.urandom(SECRET_BYTES)
            text = base64.b64encode(fresh).decode()
            made = write_json({"version": 1, "secret": text})
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
                f"{paths.SCRAM_SECRET} holds no secret: delete the node, and the next broker that "
                "starts creates another"
            )
        return found
