"""SCRAM users: credentials in `/config/users/[user]`, as kafka-configs writes them.

    {"version":1,"config":{"SCRAM-SHA-256":"salt=...,stored_key=...,server_key=...,iterations=4096"}}

They stand beside the user's quotas, which stay as they are (`registry.user_configs`).

Invariant: a look-up reads memory and never ZooKeeper, so that it takes as long for a user that does
not exist. A credential that cannot be read is none; it is named once, and not shown.
"""

import logging
from collections import Counter
from collections.abc import Iterable, Mapping

from zkbroker.registry.user_configs import (
    ConfigEntity,
    UserConfigs,
    change_entity_config,
    entity_config,
    read_user_configs,
)
from zkbroker.security.sasl.scram import (
    HASHES,
    MIN_ITERATIONS,
    ScramCredential,
    parse_credential,
)
from zkbroker.zookeeper.session import ZkSession

logger = logging.getLogger(__name__)


class ScramCredentials:
    """The credentials of all users, kept current by `take`."""

    def __init__(self) -> None:
        self._texts: dict[tuple[str, str], str] = {}
        self._stored: dict[tuple[str, str], ScramCredential] = {}
        self._usual = dict.fromkeys(HASHES, MIN_ITERATIONS)

    def take(self, configs: UserConfigs) -> None:
        """Take what ZooKeeper has."""
        texts = {
            (mechanism, entity.user): settings[mechanism]
            for entity, settings in configs.settings.items()
            if isinstance(entity.user, str) and entity.client is None
            for mechanism in HASHES
            if mechanism in settings
        }
        stored: dict[tuple[str, str], ScramCredential] = {}
        for key, text in texts.items():
            if self._texts.get(key) == text:
                if key in self._stored:
                    stored[key] = self._stored[key]
                continue
            mechanism, user = key
            try:
                stored[key] = parse_credential(text, HASHES[mechanism])
            except ValueError as error:
                logger.warning(
                    "SCRAM credential not usable user=%r mechanism=%s error=%s",
                    user,
                    mechanism,
                    error,
                )
        for mechanism in HASHES:
            counts = Counter(each.iterations for key, each in stored.items() if key[0] == mechanism)
            self._usual[mechanism] = max(
                counts, key=lambda n: (counts[n], n), default=MIN_ITERATIONS
            )
        self._texts, self._stored = texts, stored

    def credential(self, mechanism: str, user: str) -> ScramCredential | None:
        """Return what is stored of a user for a mechanism."""
        return self._stored.get((mechanism, user))

    def usual_iterations(self, mechanism: str) -> int:
        """Return the iterations that most users have."""
        return self._usual[mechanism]


def scram_users(session: ZkSession) -> dict[str, dict[str, int | None]]:
    """Return every user with a credential: user → mechanism → iterations.

    Iterations are None where the credential cannot be read.

    Raises:
        RegistryError: ZooKeeper does not answer.
    """
    found: dict[str, dict[str, int | None]] = {}
    for entity, settings in read_user_configs(session).settings.items():
        if isinstance(entity.user, str) and entity.client is None:
            of_user = _iterations(settings)
            if of_user:
                found[entity.user] = of_user
    return dict(sorted(found.items()))


def scram_user(session: ZkSession, user: str) -> dict[str, int | None]:
    """Return the mechanisms of one user with their iterations, empty without any.

    Raises:
        RegistryError: ZooKeeper does not answer, or the node holds something else.
    """
    return _iterations(entity_config(session, ConfigEntity(user=user)))


def write_credentials(
    session: ZkSession, user: str, credentials: Mapping[str, ScramCredential]
) -> None:
    """Store credentials of a user: mechanism → credential. Others of the user stay.

    Raises:
        RegistryError: ZooKeeper does not answer, or the node holds something else.
    """
    changes: dict[str, str | None] = {
        mechanism: credential.text() for mechanism, credential in credentials.items()
    }
    change_entity_config(session, ConfigEntity(user=user), changes)


def delete_credentials(session: ZkSession, user: str, mechanisms: Iterable[str]) -> None:
    """Delete credentials of a user; quotas and other credentials stay.

    Raises:
        RegistryError: ZooKeeper does not answer, or the node holds something else.
    """
    change_entity_config(session, ConfigEntity(user=user), dict.fromkeys(mechanisms, None))


def _iterations(settings: Mapping[str, str]) -> dict[str, int | None]:
    found: dict[str, int | None] = {}
    for mechanism, hashes in HASHES.items():
        if mechanism in settings:
            try:
                found[mechanism] = parse_credential(settings[mechanism], hashes).iterations
            except ValueError:
                found[mechanism] = None
    return found
