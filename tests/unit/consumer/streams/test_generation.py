"""The offset storages of a member follow its settings."""

from typing import Any

import pytest

from zkbroker.config.consumer import ConsumerConfig
from zkbroker.consumer.streams.generation import Newer
from zkbroker.runtime import get_runtime


@pytest.mark.parametrize(
    ("settings", "zookeeper", "brokers"),
    [
        ({}, True, False),
        ({"dual_commit_enabled": True}, True, True),
        ({"offsets_storage": "kafka"}, True, True),
        ({"offsets_storage": "kafka", "dual_commit_enabled": False}, False, True),
    ],
)
def test_settings_choose_offset_storages(
    settings: dict[str, Any], zookeeper: bool, brokers: bool
) -> None:
    config = ConsumerConfig(group_id="g", zookeeper_connect="z", **settings)
    session: Any = object()  # no storage is read
    generation = Newer(config, session, get_runtime("threads"))
    keeper = generation.keeper("g_1", dict, lambda: False)
    assert (keeper._zookeeper is not None, keeper._kafka is not None) == (zookeeper, brokers)
    assert (keeper._earlier is None) == zookeeper, "storage that is only read"
    assert keeper.close(10)
