"""Which storages a member writes and reads, by its settings."""

from typing import Any, cast

import pytest

from zkbroker.client import Cluster
from zkbroker.config.consumer import ConsumerConfig
from zkbroker.consumer.streams import offset_storages
from zkbroker.runtime import get_runtime
from zkbroker.zookeeper import ZkSession


@pytest.mark.parametrize(
    ("settings", "zookeeper", "brokers"),
    [
        ({}, True, False),
        ({"dual_commit_enabled": True}, True, True),
        ({"offsets_storage": "kafka"}, True, True),
        ({"offsets_storage": "kafka", "dual_commit_enabled": False}, False, True),
    ],
)
def test_the_storages_follow_the_settings(
    settings: dict[str, Any], zookeeper: bool, brokers: bool
) -> None:
    keeper = offset_storages.make_keeper(
        ConsumerConfig(group_id="g", zookeeper_connect="z", **settings),
        consumer_id="g_1",
        session=cast("ZkSession", None),
        cluster=cast("Cluster", None),
        runtime=get_runtime("threads"),
        positions=dict,
        stopping=lambda: False,
    )
    assert (keeper._zookeeper is not None, keeper._kafka is not None) == (zookeeper, brokers)
    assert (keeper._earlier is None) == zookeeper, "what is not written is read once"
    assert keeper.close(10)
