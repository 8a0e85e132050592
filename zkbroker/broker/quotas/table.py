"""Which quota applies to a client of a user, and which clients share it.

    1  /config/users/U/clients/C                     shared by client C of user U
    2  /config/users/U/clients/<default>             the same
    3  /config/users/U                               shared by all clients of user U
    4  /config/users/<default>/clients/C             shared by client C of user U
    5  /config/users/<default>/clients/<default>     the same
    6  /config/users/<default>                       shared by all clients of user U
    7  /config/clients/C                             shared by client C of all users
    8  /config/clients/<default>                     the same
    9  quota.producer.default, quota.consumer.default    the same

Invariant: each kind of quota is looked up separately; the first entity that has it counts, whatever
its value. A value that is no number above 0 is logged and ignored.

Source: KIP-13, KIP-55, KIP-124.
"""

import hashlib
import logging
import math
from collections.abc import Mapping
from enum import StrEnum

from zkbroker.registry.user_configs import DEFAULT, Name, UserConfigs

logger = logging.getLogger(__name__)

Key = tuple[str, str]
"""User and client that share a quota; empty for any. Long client ids are replaced by a hash."""
MAX_NAME_CHARS = 256
ADDRESS_RATE = "connection_creation_rate"
"""The setting of an address: its connections a second."""


class QuotaKind(StrEnum):
    """The settings that are quotas."""

    PRODUCE = "producer_byte_rate"
    """Bytes a second of produce requests, at each broker."""
    FETCH = "consumer_byte_rate"
    """Bytes a second of answers to consumers' fetches, at each broker."""
    REQUEST = "request_percentage"
    """Time that requests take, as a percentage of one thread's, at each broker."""


def quota_of(text: str) -> float | None:
    """Return the number in a setting; None if it is no quota."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) and number > 0 else None


def given_quota(settings: Mapping[str, str], key: str) -> float | None:
    """Return a quota in the settings of an entity; None without one."""
    text = settings.get(key)
    return None if text is None else quota_of(text)


def tell_invalid_quotas(before: UserConfigs, configs: UserConfigs) -> None:
    """Log each invalid quota that was set or changed since the view before."""
    for entity, settings in configs.settings.items():
        known = before.settings.get(entity, {})
        for key in QuotaKind if entity.ip is None else (ADDRESS_RATE,):
            text = settings.get(key)
            if text is not None and text != known.get(key) and quota_of(text) is None:
                logger.warning("quota ignored entity=%s key=%s value=%r: give a number above 0",
                               entity.path, key, text)  # fmt: skip


class QuotaTable:
    """All quotas that are set.

    Args:
        configs: settings of users and clients.
        defaults: for clients without quotas of their own, from the broker's settings.
    """

    def __init__(
        self, configs: UserConfigs | None = None, defaults: Mapping[QuotaKind, float] | None = None
    ) -> None:
        self._defaults = dict(defaults or {})
        self._quotas: dict[QuotaKind, dict[tuple[Name | None, Name | None], float]] = {
            kind: {} for kind in QuotaKind
        }
        for entity, settings in (configs or UserConfigs()).settings.items():
            if entity.ip is not None:
                continue
            for kind, quotas in self._quotas.items():
                quota = given_quota(settings, kind)
                if quota is not None:
                    quotas[entity.user, entity.client] = quota

    @property
    def empty(self) -> bool:
        """Whether no quota is set."""
        return not self._defaults and not any(self._quotas.values())

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, QuotaTable)
            and self._defaults == other._defaults
            and self._quotas == other._quotas
        )

    __hash__ = None  # type: ignore[assignment]

    def find(self, kind: QuotaKind, user: str, client: str) -> tuple[Key, float] | None:
        """Return the key of a shared rate, and its quota; None if there is none."""
        quotas = self._quotas[kind]
        mark = client if len(client) <= MAX_NAME_CHARS else _hash(client)
        if quotas:
            both, of_user, of_client = (user, mark), (user, ""), ("", mark)
            for wanted, key in (
                ((user, client), both),
                ((user, DEFAULT), both),
                ((user, None), of_user),
                ((DEFAULT, client), both),
                ((DEFAULT, DEFAULT), both),
                ((DEFAULT, None), of_user),
                ((None, client), of_client),
                ((None, DEFAULT), of_client),
            ):
                quota = quotas.get(wanted)
                if quota is not None:
                    return key, quota
        default = self._defaults.get(kind)
        return None if default is None else (("", mark), default)


def _hash(client: str) -> str:
    return "sha256:" + hashlib.sha256(client.encode("utf-8", "surrogatepass")).hexdigest()
