"""SASL: how a client proves its identity on a connection, and how a broker checks it.

    client                                   broker
    SaslHandshake mechanism        ----->    `ServerExchange`: which request may come now
    token                          ----->    `ServerMechanism.evaluate`
                                   <-----    token
    ...                                      principal, or `LoginRefused`

The mechanisms are PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 and OAUTHBEARER. GSSAPI is Kerberos, which is
not supported.

Invariant: nothing here knows sockets, ZooKeeper or files; each side is a state machine over bytes.
What fails says nothing of whether a user exists.
"""

from zkbroker.config.sasl_options import OAUTHBEARER, PLAIN, SCRAM_SHA_256, SCRAM_SHA_512

__all__ = ["OAUTHBEARER", "PLAIN", "SCRAM_SHA_256", "SCRAM_SHA_512"]
