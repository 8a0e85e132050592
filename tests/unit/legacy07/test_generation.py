"""Settings of mirrors with a 0.7 cluster as source or target."""

import pytest

from zkbroker.errors import ConfigError
from zkbroker.legacy07 import ConsumerConfig07, ProducerConfig07
from zkbroker.mirror import MirrorConfig, SourceConfig

GIVEN = {
    "whitelist": "t",
    "source.east.zookeeper.connect": "east:2181",
    "source.east.group.id": "mirror",
    "target.kafka.generation": "0.7",
}


def test_0_7_source_uses_consumer_config_and_refuses_identity_partitions():
    source = SourceConfig(
        properties={
            "protocol.generation": "0.7.2",
            "zk.connect": "old:2181",
            "groupid": "mirror",
            "consumerid": "m",
            "fetch.size": "5000",
            "autocommit.enable": "true",
            "shallowiterator.enable": "true",
        },
        label="old",
    )
    assert source.generation.name == "0.7"
    consumer = source.connector(1)
    assert isinstance(consumer, ConsumerConfig07)
    assert (consumer.consumer_id, consumer.fetch_bytes) == ("m-1", 5000)
    assert not consumer.autocommit_enable
    given = {"whitelist": "t", "target.bootstrap.servers": "here:9092"}
    MirrorConfig.from_properties(given, sources=[source])
    with pytest.raises(ConfigError, match="not for source old"):
        MirrorConfig.from_properties({**given, "identity.partitions": "true"}, sources=[source])


def test_0_7_target_retries_without_limit():
    config = MirrorConfig.from_properties({**GIVEN, "target.zk.connect": "old:2181"})
    own = config.generation_producer()
    assert isinstance(own, ProducerConfig07)
    shared = own.producer()
    assert (shared.required_acks, shared.linger_ms, shared.producer_type) == (-1, 0, "async")
    assert shared.retries == shared.delivery_timeout_ms == 2**31 - 1


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"target.bootstrap.servers": "old:9092"}, "id:host:port"),
        ({"target.zk.connect": "old:2181", "target.acks": "0"}, "go unnoticed"),
        ({"target.zk.connect": "old:2181", "exactly.once": "true"}, "has no transactions"),
        ({"target.zk.connect": "old:2181", "identity.partitions": "true"}, "not for the target"),
        ({"target.broker.list": "old:9092"}, "id:host:port"),
    ],
)
def test_unsupported_settings_of_0_7_target_are_refused(settings, why):
    with pytest.raises(ConfigError, match=why):
        MirrorConfig.from_properties(GIVEN | settings)
